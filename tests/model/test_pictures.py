import pytest
import torch

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
