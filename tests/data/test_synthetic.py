import math

import pytest
import torch

from remuda.data import MODES, DataConfig, load
from remuda.errors import UserError


@pytest.mark.parametrize(("name", "num_modes"), [("ring", 8), ("grid", 25)])
def test_points_scatter_around_their_modes(name, num_modes):
    dataset = load(DataConfig(name=name))
    modes = MODES[name]
    assert dataset.shape == (2, 1, 1) and dataset.counts == [2500] * num_modes
    assert len(modes.centres) == num_modes == len(dataset.classes)
    assert dataset.images.abs().max() < 1
    offsets = dataset.images.flatten(1) - torch.tensor(modes.centres)[dataset.labels]
    assert offsets.std().item() == pytest.approx(modes.std, rel=0.02)
    assert offsets.mean().abs() < 4 * modes.std / math.sqrt(offsets.numel())


def test_draws_are_reproducible_and_splits_differ():
    first, again = load(DataConfig(name="ring")), load(DataConfig(name="ring"))
    test = load(DataConfig(name="ring"), "test")
    assert torch.equal(first.images, again.images)
    assert not torch.equal(first.images[: len(test.images)], test.images)


def test_modes_do_not_overlap():
    for modes in MODES.values():
        centres = torch.tensor(modes.centres)
        distances = torch.cdist(centres, centres) + 9 * torch.eye(len(centres))
        assert distances.min() > 20 * modes.std


def test_points_have_no_pixels_to_resize():
    with pytest.raises(UserError, match=r"leave data.size and data.channels at 0"):
        load(DataConfig(name="grid", size=8))
    assert load(DataConfig(name="grid", limit=50)).counts == [2] * 25


def test_points_have_no_mirror_images():
    with pytest.raises(UserError, match=r"leave data.mirror at false"):
        load(DataConfig(name="ring", mirror=True))
