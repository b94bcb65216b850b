import numpy as np
import pytest
import torch
from torch import nn

from remuda.errors import UserError
from remuda.gan.augment import Augmented, cut, recoloured, shifted, too_small_changes
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


def test_colours_by_hand():
    """The first image becomes brighter, the second more saturated, the third loses contrast."""
    pixels = torch.tensor([[[[0.0, 0.5]], [[0.25, -0.25]]]]).expand(3, 2, 1, 2)  # (3, C, 1, 2)
    draws = torch.full((3, 3), 0.5)
    draws[0, 0], draws[1, 1], draws[2, 2] = 0.75, 1.0, 0.0
    brighter, saturated, flat = recoloured(pixels, draws, 1.0)
    assert brighter.tolist() == [[[0.25, 0.75]], [[0.5, 0.0]]]
    # The means of the two pixels are 0.125; the distances from them double.
    assert saturated.tolist() == [[[-0.125, 0.875]], [[0.375, -0.625]]]
    # The mean of the image is 0.125; the distances from it are halved.
    assert flat.tolist() == [[[0.0625, 0.3125]], [[0.1875, -0.0625]]]
    weaker = recoloured(pixels, draws, 0.5)
    assert weaker[0].tolist() == [[[0.125, 0.625]], [[0.375, -0.125]]]
    assert weaker[1].tolist() == [[[-0.0625, 0.6875]], [[0.3125, -0.4375]]]
    assert weaker[2].tolist() == [[[0.03125, 0.40625]], [[0.21875, -0.15625]]]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("strength", [1.0, 0.3])
def test_colours_equal_a_version_in_numpy(channels, strength):
    generator = np.random.default_rng(0)
    images, draws = generator.uniform(-1, 1, (4, channels, 5, 6)), generator.uniform(0, 1, (3, 4))
    expected = []
    for image, draw in zip(images, draws.T, strict=True):
        image = image + np.interp(draw[0], [0, 1], [-0.5 * strength, 0.5 * strength])
        if channels == 3:
            factor = np.interp(draw[1], [0, 1], [1 - strength, 1 + strength])
            image = factor * image + (1 - factor) * image.mean(0)
        factor = np.interp(draw[2], [0, 1], [1 - 0.5 * strength, 1 + 0.5 * strength])
        expected.append(factor * image + (1 - factor) * image.mean())
    found = recoloured(torch.from_numpy(images), torch.from_numpy(draws), strength)
    assert np.abs(found.numpy() - expected).max() < 1e-12


def test_colours_change_neither_shifts_nor_cuts():
    """A constant image remains constant, so the zeros show where it was shifted and cut."""
    plain, coloured = Augmented(Sum(), 0.25, 0.5), Augmented(Sum(), 0.25, 0.5, 1.0)
    coloured.key.copy_(plain.key)
    ones = torch.ones(50, 3, 8, 8)
    expected, found = plain.augment(ones), coloured.augment(ones)
    assert (found == 0).equal(expected == 0) and plain.key.equal(coloured.key)
    assert not found.isclose(expected).all() and (found != 0).any((1, 2, 3)).all()


def test_the_colours_of_a_batch_have_the_ranges_of_the_paper():
    torch.manual_seed(0)
    module = Augmented(Sum(), colour=1.0)
    images = torch.zeros(2000, 1, 1, 2)
    images[..., 0], images[..., 1] = 0.5, -0.5
    changed = module.augment(images)
    brightness, contrast = changed.mean((1, 2, 3)), changed[..., 0] - changed[..., 1]
    assert -0.5 <= brightness.min() < -0.49 and 0.49 < brightness.max() <= 0.5
    assert 0.5 <= contrast.min() < 0.51 and 1.49 < contrast.max() <= 1.5
    assert torch.corrcoef(torch.stack([brightness, contrast.flatten()]))[0, 1].abs() < 0.1


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


@pytest.mark.parametrize("colour", [0.0, 0.5])
def test_each_pass_draws_anew_and_slopes_find_their_way_back(colour):
    torch.manual_seed(0)
    module = Augmented(Sum(), 0.25, 0.5, colour)
    params, buffers = tensors_of(module)
    images, labels = torch.rand(5, 2, 8, 8), torch.zeros(5, dtype=torch.int64)
    first, then = apply(module, params, buffers, images, labels)
    again, _ = apply(module, params, buffers, images, labels)
    second, _ = apply(module, params, then, images, labels)
    assert first.equal(again) and not first.isclose(second).any()
    gradient = calculus.gradient(
        lambda images: apply(module, params, buffers, images, labels)[0].sum(), images
    )
    black, _ = apply(module, params, buffers, torch.zeros_like(images), labels)
    assert (gradient * images).sum().item() == pytest.approx(
        (first - black).sum().item(), rel=1e-5
    ), "the output is linear, apart from the brightness"
    assert apply(module.eval(), params, buffers, images, labels)[0].equal(Sum()(images, labels))


def test_members_in_a_stack_draw_as_alone():
    module = Augmented(Sum(), 0.25, 0.5, 1.0)
    keys, images = torch.tensor([3, 4, 5]), torch.rand(3, 5, 1, 8, 8)
    labels = torch.zeros(5, dtype=torch.int64)

    def critic(key, images):
        return apply(module, {}, {"key": key}, images, labels)[0]

    stacked = torch.func.vmap(critic)(keys, images)
    assert torch.allclose(
        stacked, torch.stack([critic(*one) for one in zip(keys, images, strict=True)])
    )


@pytest.mark.parametrize("name", ["shift", "cutout", "colour"])
def test_points_are_not_augmented(name):
    with pytest.raises(UserError, match="for images, not for points"):
        Standalone(**{name: 0.1}).prepare(MLP(), (2, 1, 1), 0, seed=0)


def test_changes_of_less_than_a_pixel_are_found():
    shape = 1, 8, 20
    assert too_small_changes(shape, 0.0, 0.0) == {}
    assert too_small_changes(shape, 0.02, 0.06) == {"shift": 0.05, "cutout": 0.125}
    assert too_small_changes(shape, 0.05, 0.125) == {}
    images = torch.ones(64, *shape)
    assert (cut(images, torch.rand(2, 64), 0.06) == images).all()
    assert (cut(images, torch.rand(2, 64), 0.125) == 0).flatten(1).any(1).all()
    assert (shifted(images, torch.rand(2, 64), 0.02) == images).all()
    assert (shifted(images, torch.rand(2, 64), 0.05) == 0).any()
