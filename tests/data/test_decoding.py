"""Check images of every kind: modes, orientation, aspect ratios and broken files."""

import io
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from remuda.data import DataConfig, load
from remuda.data.decoding import Broken, decode, shaped, strictly, target_of
from remuda.errors import UserError

from .samples import image_bytes, write_image


def _load(root: Path, **values):
    return load(DataConfig(name=f"folder:{root}", **values))


def _pixel(root: Path, **values) -> list[int]:
    return _load(root, **values).images[0, :, 0, 0].tolist()


def test_16_bit_grey(tmp_path):
    for name in ("x.png", "x.tiff"):
        pixels = np.full((8, 8), 0xABCD, np.uint16)
        Image.fromarray(pixels).save(tmp_path / name)
    assert _load(tmp_path).images.unique().tolist() == [0xAB]
    assert _load(tmp_path, channels=3).shape == (3, 8, 8)
    Image.frombytes("I;16B", (8, 8), b"\x12\x34" * 64).save(tmp_path / "big.tiff")
    assert 0x12 in _load(tmp_path).images.unique().tolist()


def test_cmyk(tmp_path):
    write_image(tmp_path / "x.jpg", mode="CMYK", colour=(0, 0, 0, 0))
    assert _pixel(tmp_path) == [255, 255, 255]


def test_palettes_with_transparency(tmp_path):
    image = Image.new("P", (8, 8), 1)
    image.putpalette([0, 0, 0, 10, 20, 30])
    image.save(tmp_path / "x.png", transparency=1)
    assert _pixel(tmp_path) == [10, 20, 30, 0]
    assert _pixel(tmp_path, channels=3) == [0, 0, 0]
    assert _pixel(tmp_path, channels=3, background="white") == [255, 255, 255]


@pytest.mark.parametrize(
    ("mode", "colour", "channels", "background", "pixel"),
    [
        ("RGBA", (200, 100, 0, 255), 3, "white", [200, 100, 0]),
        ("RGBA", (200, 100, 0, 0), 3, "black", [0, 0, 0]),
        ("RGBA", (200, 100, 0, 0), 3, "white", [255, 255, 255]),
        ("RGBA", (200, 100, 0, 0), 1, "white", [255]),
        ("RGBA", (200, 100, 0, 7), 4, "white", [200, 100, 0, 7]),
        ("LA", (50, 0), 1, "white", [255]),
        ("LA", (50, 255), 3, "black", [50, 50, 50]),
        ("L", 50, 4, "black", [50, 50, 50, 255]),
        ("1", 1, 4, "black", [255, 255, 255, 255]),
    ],
)
def test_alpha(tmp_path, mode, colour, channels, background, pixel):
    write_image(tmp_path / "x.png", mode=mode, colour=colour)
    assert _pixel(tmp_path, channels=channels, background=background) == pixel


def test_animations_give_their_first_frame(tmp_path):
    frames = [Image.new("RGB", (8, 8), (value, 0, 0)) for value in (255, 0, 100)]
    frames[0].save(tmp_path / "x.gif", save_all=True, append_images=frames[1:])
    assert _pixel(tmp_path) == [255, 0, 0]


@pytest.mark.parametrize(
    ("orientation", "corner"), [(1, (0, 0)), (3, (3, 7)), (6, (0, 3)), (8, (7, 0))]
)
def test_orientation(tmp_path, orientation, corner):
    """A corner of a 4 x 8 image (height x width) moves as the EXIF tag tells."""
    image = Image.new("L", (8, 4))
    image.putpixel((0, 0), 255)
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(tmp_path / "x.png", exif=exif)
    found = _load(tmp_path).images[0, 0]
    assert found.shape == ((4, 8) if orientation in (1, 3) else (8, 4))
    assert found[corner] == 255 and found.count_nonzero() == 1


@pytest.mark.parametrize("size", [64, 128, 256, (48, 64), (64, 48), (128, 96)])
@pytest.mark.parametrize("fit", ["crop", "pad", "stretch"])
def test_sizes(tmp_path, size, fit):
    write_image(tmp_path / "a.png", (100, 60), colour=(200, 200, 200))
    write_image(tmp_path / "b.png", (30, 90), colour=(200, 200, 200))
    found = _load(tmp_path, size=size, fit=fit)
    height, width = size if isinstance(size, tuple) else (size, size)
    assert found.shape == (3, height, width)
    colours = set(found.images.unique().tolist())
    assert colours == ({200} if fit != "pad" else colours | {0, 200})


def test_a_size_as_height_and_width(tmp_path):
    """A picture whose left half is white, in the shape 2 x 4: each policy shows another part."""
    pixels = np.zeros((40, 40), np.uint8)
    pixels[:, :20] = 255
    Image.fromarray(pixels).save(tmp_path / "x.png")
    stretched = _load(tmp_path, size=(2, 4), fit="stretch").images[0, 0]
    assert stretched.shape == (2, 4)
    assert (stretched[:, 0] > 250).all() and (stretched[:, 3] < 5).all()
    padded = _load(tmp_path, size=(2, 4), fit="pad", background="white").images[0, 0]
    assert padded[:, 0].tolist() == padded[:, 3].tolist() == [255, 255], "the border"
    assert (padded[:, 2] < 100).all()


def test_the_filter_matters(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (40, 40), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "x.png")
    smooth, sharp = (
        _load(tmp_path, size=16, filter=name).images for name in ("bilinear", "bicubic")
    )
    assert smooth.float().std() < sharp.float().std() < noise.std()


def test_padding_of_images_with_alpha_is_transparent(tmp_path):
    write_image(tmp_path / "x.png", (8, 4), mode="RGBA", colour=(9, 9, 9, 255))
    found = _load(tmp_path, size=8, fit="pad", background="white").images[0]
    assert found[:, 0, 0].tolist() == [255, 255, 255, 0]
    assert found[:, 4, 4].tolist() == [9, 9, 9, 255]


@settings(max_examples=60, deadline=None)
@given(
    source=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    sides=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    fit=st.sampled_from(["crop", "pad", "stretch"]),
    mode=st.sampled_from(["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"]),
    channels=st.sampled_from([0, 1, 3, 4]),
)
def test_every_image_gets_the_shape(source, sides, fit, mode, channels):
    form = "TIFF" if mode == "CMYK" else "PNG"
    config = DataConfig(size=sides, fit=fit, channels=channels)
    image = decode(image_bytes(source, mode, form=form))
    target = target_of(image, "x", config)
    assert shaped(image, "x", target).shape == (target.num_channels, *sides)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=80), st.integers(0, 1000), st.sampled_from(["PNG", "JPEG", "GIF", "BMP"]))
def test_damaged_files_are_broken_or_images(noise, place, form):
    """No damage raises anything but Broken."""
    raw = bytearray(image_bytes((30, 20), colour=(1, 2, 3), form=form))
    place = place % len(raw)
    raw[place : place + len(noise)] = noise
    try:
        with strictly():
            assert decode(bytes(raw)).mode in ("L", "LA", "RGB", "RGBA")
    except Broken as error:
        assert str(error)


def _broken_files(root: Path) -> None:
    for i in range(70):
        write_image(root / f"{i:03}.png", (4, 4))
    jpeg = image_bytes((64, 64), colour=(1, 2, 3), form="JPEG")
    (root / "100.jpg").write_bytes(jpeg[: len(jpeg) // 2])  # truncated
    (root / "101.png").write_bytes(b"")
    (root / "102.png").write_bytes(b"<html>not an image</html>")
    (root / "103.gif").write_bytes(b"GIF89a")


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_broken_files_are_reported_together(tmp_path, storage):
    root = tmp_path / "root"
    root.mkdir()
    _broken_files(root)
    with pytest.raises(UserError) as error:
        _load(root, storage=storage)
    message = str(error.value)
    assert "cannot read 4 of 74 images" in message
    assert "100.jpg (" in message and "101.png (it is empty)" in message
    assert "102.png (it is not an image that Pillow knows) and 1 more" in message
    assert "--skip-broken" in message and "\n" not in message
    found = _load(root, storage=storage, skip_broken=True)
    assert (len(found.labels), len(found.images), found.num_skipped) == (70, 70, 4)


def test_only_broken_files(tmp_path):
    (tmp_path / "x.png").write_bytes(b"")
    with pytest.raises(UserError, match=r"cannot read 1 of 1 images .*: add images that can be"):
        _load(tmp_path, skip_broken=True)


def test_labels_belong_to_the_images_that_are_left(tmp_path):
    for name, colour in (("a", 10), ("b", 20)):
        for i in range(3):
            write_image(tmp_path / name / f"{i}.png", mode="L", colour=colour)
    (tmp_path / "a" / "0.png").write_bytes(b"")
    (tmp_path / "b" / "1.png").write_bytes(b"")
    for storage in ("memory", "disk"):
        found = _load(tmp_path, storage=storage, skip_broken=True)
        assert found.labels.tolist() == [0, 0, 1, 1]
        assert found.images[:, 0, 0, 0].tolist() == [10, 10, 20, 20]


def test_images_with_too_many_pixels_are_broken(tmp_path):
    """A small file may claim to be huge; it must fail before memory is allocated."""
    raw = bytearray(image_bytes((8, 8), mode="L"))
    raw[16:24] = (100_000).to_bytes(4, "big") * 2  # width and height of the PNG header
    raw[29:33] = zlib.crc32(raw[12:29]).to_bytes(4, "big")
    (tmp_path / "bomb.png").write_bytes(raw)
    write_image(tmp_path / "x.png", mode="L")
    with pytest.raises(UserError, match=r"bomb.png \(it has more than 89 million pixels"):
        _load(tmp_path)
    file = io.BytesIO()
    Image.new("1", (12_000, 12_000)).save(file, "PNG")  # Pillow itself only warns
    (tmp_path / "bomb.png").write_bytes(file.getvalue())
    with pytest.raises(UserError, match=r"bomb.png \(it has more than 89 million pixels"):
        _load(tmp_path)
