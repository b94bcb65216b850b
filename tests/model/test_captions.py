"""Grids with the names of their rows."""

import numpy as np
import pytest
import torch
from PIL import Image

from remuda import save_grid
from remuda.errors import UserError
from remuda.model.captions import GAP, WIDEST


def grid(path, columns=3, rows=2, channels=1, **options):
    generator = torch.Generator().manual_seed(0)
    shape = rows * columns, channels, 8, 8
    images = torch.randint(256, shape, generator=generator, dtype=torch.uint8)
    save_grid(images, columns, path, **options)
    return np.asarray(Image.open(path))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_names_stand_left_of_an_unchanged_grid(tmp_path, channels):
    plain = grid(str(tmp_path / "plain.png"), channels=channels)  # a path as a string
    named = grid(tmp_path / "named.png", channels=channels, names=["cat", "a long dog"])
    width = named.shape[1] - plain.shape[1]
    assert named.shape[0] == plain.shape[0] and width > 0
    assert np.array_equal(named[:, width:], plain)
    left = named[:, :width].reshape(plain.shape[0], width, -1)[..., 0]
    halves = left[: len(left) // 2], left[len(left) // 2 :]
    assert all(half.min() < 100 and half[:, 0].min() == 255 for half in halves)
    assert (halves[0] < 128).sum() < (halves[1] < 128).sum()  # the second name is longer


def test_long_and_odd_names_are_shortened(tmp_path):
    plain = grid(tmp_path / "plain.png")
    names = ["x" * 100_000, "two\nlines\t\u202e<b>"]
    named = grid(tmp_path / "named.png", names=names)
    assert named.shape[1] - plain.shape[1] <= WIDEST + 2 * GAP
    assert named.shape[0] == plain.shape[0]


def test_every_row_needs_a_name(tmp_path):
    with pytest.raises(UserError, match=r"got 1 name for 2 rows of images: pass one name per row"):
        grid(tmp_path / "grid.png", names=["cat"])


def test_points_have_no_rows(tmp_path):
    points = torch.zeros(5, 2, 1, 1)
    save_grid(points, 8, tmp_path / "points.png", names=["a"])
    assert (tmp_path / "points.png").exists()
