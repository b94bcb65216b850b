import pytest
import torch
from torch import nn

from remuda.errors import UserError
from remuda.gan.augment import Augmented, cut, shifted
from remuda.gan.players import apply, tensors_of
from remuda.networks.mlp import MLP
from remuda.strategies.standalone import Standalone
from remuda.tensors import calculus

IMAGES = torch.arange(1.0, 25.0).reshape(2, 1, 3, 4)


def test_shifts_by_hand():
    """Of 3 rows a third is 1 pixel, of 4 columns too: draws below 1/3 mean -1, above 2/3 +1."""
    none, both = torch.full((2, 2), 0.5), torch.tensor([[0.9, 0.1], [0.1, 0.5]])
    assert shifted(IMAGES, none, 1 / 3).equal(IMAGES)
    down_left, up = shifted(IMAGES, both, 1 / 3)[:, 0]
    assert down_left.tolist() == [[0, 0, 0, 0], [2, 3, 4, 0], [6, 7, 8, 0]]
    assert up.tolist() == [[17, 18, 19, 20], [21, 22, 23, 24], [0, 0, 0, 0]]


def test_cuts_by_hand():
    """Half of 4 is 2 columns, half of 3 rounds to 2 rows; the border may cut off half of these."""
    middle, corner = cut(IMAGES, torch.tensor([[0.3, 0.0], [0.5, 0.99]]), 0.5)[:, 0]
    assert middle.tolist() == [[1, 0, 0, 4], [5, 0, 0, 8], [9, 10, 11, 12]]
    assert corner.tolist() == [[13, 14, 15, 0], [17, 18, 19, 20], [21, 22, 23, 24]]
    assert cut(IMAGES, torch.rand(2, 2), 0.0).equal(IMAGES)


@pytest.mark.parametrize("side, part", [(8, 0.4), (8, 0.125), (16, 0.3), (16, 0.5), (7, 0.3)])
def test_both_borders_are_cut_as_often(side, part):
    places = (torch.arange(3600.0) + 0.5) / 3600
    images = cut(
        torch.ones(3600, 1, side, side), torch.stack([torch.full((3600,), 0.5), places]), part
    )
    columns = (images[:, 0, side // 2] == 0).double().mean(0)
    assert torch.allclose(columns, columns.flip(0), atol=2e-3) and columns.min() > 0


def test_every_shift_is_as_likely():
    spot = torch.zeros(7000, 1, 9, 9)
    spot[:, :, 4, 4] = 1.0
    moved = shifted(spot, torch.rand(2, 7000, generator=torch.Generator().manual_seed(0)), 0.33)
    frequencies = moved.mean((0, 1)) * 49
    assert (frequencies[1:8, 1:8] - 1).abs().max() < 0.35 and moved.sum() == 7000


class Sum(nn.Module):
    """Weigh the pixels with the numbers 1, 2, ..."""

    def forward(self, images, labels):
        return (images * torch.arange(1.0, 1 + images[0].numel()).reshape(images[0].shape)).sum(
            (1, 2, 3)
        )


def test_each_pass_draws_anew_and_slopes_find_their_way_back():
    torch.manual_seed(0)
    module = Augmented(Sum(), 0.25, 0.5)
    params, buffers = tensors_of(module)
    images, labels = torch.rand(5, 2, 8, 8), torch.zeros(5, dtype=torch.int64)
    first, then = apply(module, params, buffers, images, labels)
    again, _ = apply(module, params, buffers, images, labels)
    second, _ = apply(module, params, then, images, labels)
    assert first.equal(again) and not first.isclose(second).any()
    gradient = calculus.gradient(
        lambda images: apply(module, params, buffers, images, labels)[0].sum(), images
    )
    assert (gradient * images).sum().item() == pytest.approx(first.sum().item(), rel=1e-5), (
        "the whole is linear"
    )
    assert apply(module.eval(), params, buffers, images, labels)[0].equal(Sum()(images, labels))


def test_members_in_a_stack_draw_as_alone():
    module = Augmented(Sum(), 0.25, 0.5)
    keys, images = torch.tensor([3, 4, 5]), torch.rand(3, 5, 1, 8, 8)
    labels = torch.zeros(5, dtype=torch.int64)

    def critic(key, images):
        return apply(module, {}, {"key": key}, images, labels)[0]

    stacked = torch.func.vmap(critic)(keys, images)
    assert torch.allclose(
        stacked, torch.stack([critic(*one) for one in zip(keys, images, strict=True)])
    )


def test_points_are_not_shifted():
    with pytest.raises(UserError, match="for images, not for points"):
        Standalone(shift=0.1).prepare(MLP(), (2, 1, 1), 0, seed=0)
