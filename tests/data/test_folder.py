from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from remuda.data import DataConfig, Split, load
from remuda.errors import UserError

from .samples import write_image


def _load(root: Path, split: Split = "train", **values):
    return load(DataConfig(name=f"folder:{root}", **values), split)


def test_sub_folders_are_classes_sorted_by_name(tmp_path):
    for name, count in (("wolf", 2), ("bear", 3), ("hare", 1)):
        for i in range(count):
            write_image(tmp_path / name / f"{i}.png", colour=(count * 10, i, 0))
    write_image(tmp_path / ".hidden" / "x.png")
    write_image(tmp_path / "bear" / ".thumb.png")
    (tmp_path / "bear" / "notes.txt").write_text("ignored")
    (tmp_path / "README.md").write_text("ignored")
    dataset = _load(tmp_path)
    assert dataset.classes == ("bear", "hare", "wolf") and dataset.counts == [3, 1, 2]
    assert dataset.images.shape == (6, 3, 8, 8)
    assert dataset.images[:, 0, 0, 0].tolist() == [30, 30, 30, 10, 20, 20]
    assert dataset.images[:, 1, 0, 0].tolist() == [0, 1, 2, 0, 0, 1]


def test_chosen_classes_come_first(tmp_path):
    for name, count in (("ant", 1), ("bear", 3), ("hare", 2), ("wolf", 2)):
        for i in range(count):
            write_image(tmp_path / "train" / name / f"{i}.png", colour=(count * 10, i, 0))
    write_image(tmp_path / "test" / "bear" / "0.png")
    dataset = _load(tmp_path, classes=("wolf", "bear"))
    assert dataset.classes == ("wolf", "bear", "ant", "hare") and dataset.counts == [2, 3, 1, 2]
    assert dataset.images[dataset.labels == 1][:, 0, 0, 0].tolist() == [30, 30, 30]
    assert _load(tmp_path, classes=("wolf", "bear"), limit=5).counts == [2, 1, 1, 1]
    assert _load(tmp_path, "test", classes=("wolf", "bear")).labels.tolist() == [1]
    with pytest.raises(
        UserError, match=r"has no class lynx, .*: restore the class under this name"
    ):
        _load(tmp_path, classes=("wolf", "lynx"))
    with pytest.raises(UserError, match="names a class twice: remove one"):
        DataConfig(classes=("wolf", "wolf"))


def test_images_without_sub_folders_are_one_class(tmp_path):
    for name in ("b.JPEG", "a.bmp", "c.gif"):
        write_image(tmp_path / "herd" / name)
    dataset = _load(tmp_path / "herd")
    assert dataset.classes == ("herd",) and dataset.counts == [3]


def test_deeper_folders_belong_to_their_class(tmp_path):
    write_image(tmp_path / "a" / "images" / "1.png")
    write_image(tmp_path / "b" / "1.png")
    assert _load(tmp_path).counts == [1, 1]


def test_size_fits_the_shorter_side_and_crops_the_centre(tmp_path):
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, :10], wide[:, 10:20], wide[:, 20:] = (255, 0, 0), (0, 255, 0), (0, 0, 255)
    Image.fromarray(wide).save(tmp_path / "wide.png")
    Image.fromarray(wide.transpose(1, 0, 2)).save(tmp_path / "tall.png")
    dataset = _load(tmp_path, size=5)
    assert dataset.images.shape == (2, 3, 5, 5)
    inner = dataset.images[:, :, 1:-1, 1:-1]  # the outer pixels blend with what was cropped
    assert (inner[:, 1] == 255).all() and (inner[:, [0, 2]] == 0).all()
    assert (dataset.images[:, 1] > 200).all()


def test_without_size_all_images_must_be_equal(tmp_path):
    write_image(tmp_path / "a.png", (8, 8))
    write_image(tmp_path / "b.png", (8, 9))
    with pytest.raises(UserError, match=r"b.png is 8 x 9 but a.png is 8 x 8: set data.size"):
        _load(tmp_path)
    (tmp_path / "a.png").unlink()
    assert _load(tmp_path).shape == (3, 9, 8)


def test_channels_are_kept_or_converted(tmp_path):
    write_image(tmp_path / "1.png", mode="L", colour=100)
    write_image(tmp_path / "2.png", mode="RGB", colour=(255, 0, 0))
    message = r"2.png has 3 channels but 1.png has 1: set data.channels"
    with pytest.raises(UserError, match=message):
        _load(tmp_path)
    assert _load(tmp_path, channels=1).images[:, 0, 0, 0].tolist() == [100, 76]
    assert _load(tmp_path, channels=3).images[:, 2, 0, 0].tolist() == [100, 0]
    assert _load(tmp_path, channels=4).images[:, :, 0, 0].tolist() == [
        [100, 100, 100, 255],
        [255, 0, 0, 255],
    ]
    with pytest.raises(UserError, match=r"data.channels must be 0, 1, 3 or 4, not 5"):
        _load(tmp_path, channels=5)


@pytest.mark.parametrize(
    ("mode", "colour", "pixel"),
    [
        ("LA", (9, 50), [9, 50]),
        ("RGBA", (1, 2, 3, 4), [1, 2, 3, 4]),
        ("1", 1, [255]),
        ("P", 0, [0, 0, 0]),
        ("I;16", 0x1234, [0x12]),
    ],
)
def test_other_modes(tmp_path, mode, colour, pixel):
    write_image(tmp_path / "x.png", mode=mode, colour=colour)
    assert _load(tmp_path).images[0, :, 0, 0].tolist() == pixel


def test_floating_pixels_are_refused(tmp_path):
    write_image(tmp_path / "x.tiff", mode="F", colour=0.5)
    with pytest.raises(UserError, match=r"x.tiff \(it has pixels of mode F"):
        _load(tmp_path)


def test_photos_are_turned_upright(tmp_path):
    image = Image.new("L", (6, 6))
    image.putpixel((0, 0), 255)
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    image.save(tmp_path / "x.png", exif=exif)
    assert _load(tmp_path).images[0, 0, 5, 5] == 255


def test_limit_decodes_only_the_images_that_it_keeps(tmp_path):
    for name in ("a", "b"):
        for i in range(4):
            write_image(tmp_path / name / f"{i}.png")
    (tmp_path / "a" / "3.png").write_bytes(b"never decoded")
    assert _load(tmp_path, limit=5).counts == [3, 2]


def test_images_that_do_not_fit_into_memory(tmp_path, monkeypatch):
    for i in range(10):
        write_image(tmp_path / f"{i}.png")
    monkeypatch.setattr("remuda.data.folder.available_bytes", lambda: 700)
    message = r"but only 0.0 GB of memory is free: set data.storage=disk, or a smaller data.size"
    with pytest.raises(UserError, match=message):
        _load(tmp_path, storage="memory")
    assert len(_load(tmp_path, limit=3, storage="memory").labels) == 3
    assert _load(tmp_path).file is not None, "auto chooses the disk"
    assert _load(tmp_path, limit=1).file is None, "auto chooses the memory"


@pytest.mark.parametrize("make", ["nothing", "empty", "text"])
def test_no_images(tmp_path, make):
    root = tmp_path / "herd"
    if make != "nothing":
        (root / "a").mkdir(parents=True)
    if make == "text":
        (root / "a" / "x.txt").write_text("")
    message = "is not a folder" if make == "nothing" else r"herd/a contains no images"
    with pytest.raises(UserError, match=message):
        _load(root)


def test_an_empty_class_among_others(tmp_path):
    write_image(tmp_path / "a" / "1.png")
    (tmp_path / "b").mkdir()
    with pytest.raises(UserError, match=r"b contains no images that Pillow can read: .*move"):
        _load(tmp_path)


def test_a_wrong_folder_is_not_to_be_deleted(tmp_path):
    (tmp_path / "letter.txt").write_text("Dear Ada")
    with pytest.raises(
        UserError, match=r"add some, or name another folder or archive with data\.name="
    ):
        _load(tmp_path)


def test_images_next_to_folders_are_ambiguous(tmp_path):
    write_image(tmp_path / "a" / "1.png")
    write_image(tmp_path / "loose.png")
    with pytest.raises(
        UserError, match=r"both images \(such as loose.png\) and folders \(such as a\)"
    ):
        _load(tmp_path)


def test_train_and_val_are_splits(tmp_path):
    for name, count in (("a", 3), ("b", 2), ("c", 1)):
        for i in range(count):
            write_image(tmp_path / "train" / name / f"{i}.png")
    write_image(tmp_path / "val" / "c" / "0.png")
    write_image(tmp_path / "test" / "unlabelled" / "0.png")  # as in Tiny ImageNet
    assert _load(tmp_path).counts == [3, 2, 1]
    test = _load(tmp_path, "test")
    assert test.classes == ("a", "b", "c") and test.counts == [0, 0, 1]
    write_image(tmp_path / "test" / "b" / "0.png")
    (tmp_path / "test" / "unlabelled" / "0.png").unlink()
    (tmp_path / "test" / "unlabelled").rmdir()
    assert _load(tmp_path, "test").counts == [0, 1, 0]


def test_splits_without_class_folders(tmp_path):
    for split in ("train", "test"):
        write_image(tmp_path / "herd" / split / "0.png")
    assert _load(tmp_path / "herd").classes == _load(tmp_path / "herd", "test").classes == ("herd",)


def test_train_without_a_test_split(tmp_path):
    write_image(tmp_path / "train" / "a" / "0.png")
    write_image(tmp_path / "train" / "b" / "0.png")
    assert _load(tmp_path).classes == ("a", "b")
    for root in (tmp_path, tmp_path / "train"):
        with pytest.raises(UserError, match="has no test split"):
            _load(root, "test")
