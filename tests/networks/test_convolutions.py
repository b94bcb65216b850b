"""Check the convolution operators against the library, under all transforms that training uses."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from remuda.engines.programs import OPTIONS
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


def ours_grouped(x: Tensor, weight: Tensor) -> Tensor:
    return convolutions.convolution(x, weight, 1, 1, groups=3)


def library_grouped(x: Tensor, weight: Tensor) -> Tensor:
    image, kernel = x.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1)
    return F.conv2d(image, kernel, padding=1, groups=3).permute(0, 2, 3, 1)


Pair = tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]
CASES: dict[str, tuple[Pair, tuple[int, ...]]] = {
    "stride 1": ((lambda x, w: ours(x, w, 1), lambda x, w: library(x, w, 1)), (3, 3, 3, 5)),
    "stride 2": ((lambda x, w: ours(x, w, 2), lambda x, w: library(x, w, 2)), (3, 3, 3, 5)),
    "transposed": ((ours_transposed, library_transposed), (4, 4, 5, 3)),
    "groups": ((ours_grouped, library_grouped), (3, 3, 1, 6)),
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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_kernels_on_a_gpu_equal_the_cpu(name: str, compiled: bool) -> None:
    (mine, theirs), shape = CASES[name]
    expected = gradients(theirs)(*draw(shape))
    arguments = [t.float().cuda() for t in draw(shape)]
    function = gradients(mine)
    if compiled:
        function = torch.compile(function, fullgraph=True, dynamic=False, options=OPTIONS)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        found = function(*arguments)
    finally:
        torch.set_float32_matmul_precision(before)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu().double(), other, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(
    "size, num_in, num_out, stride",
    [(32, 7, 64, 2), (32, 13, 16, 2), (16, 64, 128, 2), (4, 256, 512, 2), (16, 256, 256, 1)],
)
def test_large_layers_on_a_gpu_equal_the_library(size, num_in, num_out, stride) -> None:
    """Compare layers of real sizes, with images of three channels and planes of labels, too."""
    torch.manual_seed(1)
    x = torch.randn(4, 32, size, size, num_in, device="cuda")
    weight = torch.randn(4, 3, 3, num_in, num_out, device="cuda") / (9 * num_in) ** 0.5
    found = torch.func.vmap(lambda x, w: ours(x, w, stride))(x, weight)
    wanted = torch.func.vmap(lambda x, w: library(x, w, stride))(x.double(), weight.double())
    torch.testing.assert_close(found.double(), wanted, rtol=1e-3, atol=1e-3)


KERNELS_ON_A_CPU = """
import torch
from remuda.networks import convolutions, kernels
from remuda.networks.kernels import Tile

torch.manual_seed(1)
TILES = [None, Tile(16, 16, 32, square=2)]
CASES = [(5, 3, 1, 20, 3, 1), (6, 3, 2, 3, 20, 1), (6, 4, 2, 16, 5, 1), (5, 3, 1, 4, 6, 3)]
for size, k, stride, inner, outer, groups in CASES:
    after = (size + 2 - k) // stride + 1
    x = torch.randn(2, 1, size, size, groups * inner)
    g = torch.randn(2, 1, after, after, groups * outer)
    weight = torch.randn(2, k, k, inner, groups * outer)
    numbers = stride, 1, groups
    for tile in TILES:
        for kernel, reference, arguments in [
            (kernels.convolution, convolutions._cpu_convolution, (x, weight, *numbers)),
            (
                kernels.input_gradient,
                convolutions._cpu_input_gradient,
                (g, weight, size, size, *numbers),
            ),
            (kernels.weight_gradient, convolutions._cpu_weight_gradient, (x, g, k, *numbers)),
        ]:
            found, wanted = kernel(*arguments, tile=tile), reference(*arguments)
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
"""


def test_kernels_in_the_interpreter_equal_the_library() -> None:
    """Run the kernels without a GPU, in a process of its own: the choice is made at import."""
    pytest.importorskip("triton", reason="Triton is not installed")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-c", KERNELS_ON_A_CPU]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if "only 0-dimensional arrays can be converted" in done.stderr:
        pytest.skip("this version of Triton's interpreter does not work with this NumPy")
    assert done.returncode == 0, done.stderr
