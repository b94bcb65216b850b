"""Check the convolution operators against the library, under all transforms that training uses."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from remuda.networks import convolutions
from remuda.tensors import calculus

MEMBERS = 2


def ours(x: Tensor, weight: Tensor, stride: int) -> Tensor:
    return convolutions.convolution(x, weight, stride, 1)


def library(x: Tensor, weight: Tensor, stride: int) -> Tensor:
    image, kernel = x.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1)
    return F.conv2d(image, kernel, stride=stride, padding=1).permute(0, 2, 3, 1)


def ours_transposed(x: Tensor, weight: Tensor) -> Tensor:
    return convolutions.transposed(x, weight, 2 * x.shape[1], 2 * x.shape[2], 2, 1)


def library_transposed(x: Tensor, weight: Tensor) -> Tensor:
    image, kernel = x.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1)
    return F.conv_transpose2d(image, kernel, stride=2, padding=1).permute(0, 2, 3, 1)


Pair = tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]
CASES: dict[str, tuple[Pair, tuple[int, ...]]] = {
    "stride 1": ((lambda x, w: ours(x, w, 1), lambda x, w: library(x, w, 1)), (3, 3, 3, 5)),
    "stride 2": ((lambda x, w: ours(x, w, 2), lambda x, w: library(x, w, 2)), (3, 3, 3, 5)),
    "transposed": ((ours_transposed, library_transposed), (4, 4, 5, 3)),
}


def penalised(convolve: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return a loss that depends on an image gradient, as a critic's gradient penalty does."""

    def loss(weight: Tensor, x: Tensor) -> Tensor:
        def score(images: Tensor) -> Tensor:
            return torch.tanh(convolve(images, weight)).sum()

        return score(x) + calculus.gradient(score, x).square().sum().sqrt()

    return loss


def draw(shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    x = torch.randn(MEMBERS, 2, 5, 4, 3, dtype=torch.float64)
    return torch.randn(MEMBERS, *shape, dtype=torch.float64) / 4, x


def gradients(convolve: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., object]:
    return calculus.stacked(torch.func.grad(penalised(convolve), argnums=(0, 1)))


@pytest.mark.parametrize("name", CASES)
def test_penalty_gradients_of_stacked_members_equal_the_library(name: str) -> None:
    (mine, theirs), shape = CASES[name]
    arguments = draw(shape)
    torch.testing.assert_close(gradients(mine)(*arguments), gradients(theirs)(*arguments))


@pytest.mark.parametrize("name", CASES)
def test_plain_autograd_gives_the_same_second_derivatives(name: str) -> None:
    (mine, _), shape = CASES[name]
    weight, x = (t[0].requires_grad_() for t in draw(shape))
    assert torch.autograd.gradcheck(mine, (x, weight))
    assert torch.autograd.gradgradcheck(mine, (x, weight))


def test_compiled_gradients_equal_eager_ones() -> None:
    (mine, _), shape = CASES["stride 2"]
    arguments = draw(shape)
    compiled = torch.compile(gradients(mine), fullgraph=True, dynamic=False)
    torch.testing.assert_close(compiled(*arguments), gradients(mine)(*arguments))


def test_members_can_share_weights_or_images() -> None:
    weight, x = draw((3, 3, 3, 5))
    shared = torch.func.vmap(lambda image: ours(image, weight[0], 2))(x)
    torch.testing.assert_close(shared[1], library(x[1], weight[0], 2))
    shared = torch.func.vmap(lambda kernel: ours(x[0], kernel, 2))(weight)
    torch.testing.assert_close(shared[1], library(x[0], weight[1], 2))
