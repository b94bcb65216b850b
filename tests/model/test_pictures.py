import pytest
import torch

from remuda.errors import UserError
from remuda.model.pictures import save_grid
from remuda.system import disk


def test_a_picture_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    """A resume draws no picture whose file exists, so the file must be complete."""

    def fail(_):
        raise OSError(28, "No space left on device")

    path, images = tmp_path / "round-000001.png", torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    save_grid(images, 2, path)
    old = path.read_bytes()
    monkeypatch.setattr(disk, "sync", fail)
    with pytest.raises(OSError, match="No space left"):
        save_grid(images + 255, 2, path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path], "no space is wasted"


@pytest.mark.parametrize(
    ("shape", "columns", "name", "problem"),
    [
        ((2, 1, 8, 8), 0, "a.png", "0 columns: use 1 or more"),
        ((0, 1, 8, 8), 8, "a.png", "pass at least one image"),
        ((1, 8, 8), 1, "a.png", r"shape \(1, 8, 8\): pass at least one image"),
        ((2, 1, 8, 8), 2, "a.jpg", "let its name end in .png"),
    ],
)
def test_grids_that_cannot_be_drawn_are_refused(tmp_path, shape, columns, name, problem):
    with pytest.raises(UserError, match=problem):
        save_grid(torch.zeros(shape, dtype=torch.uint8), columns, tmp_path / name)
    assert not list(tmp_path.iterdir())
