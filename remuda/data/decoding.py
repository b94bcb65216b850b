"""Decode images of any kind to bytes of one shape, with Pillow."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image, ImageOps

from remuda.data.config import DataConfig

MAX_PIXELS = Image.MAX_IMAGE_PIXELS or 89_478_485  # of an image to decode
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}  # Pillow's mode for a number of channels
NUM_CHANNELS = {mode: count for count, mode in _MODES.items()}
_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
_LEVELS = {"black": 0, "white": 255}
# Pillow starts another program to draw these, or cannot decode them without one.
_NOT_PIXELS = {"EPS", "WMF", "GRIB", "BUFR", "HDF5", "MPEG"}


class Broken(Exception):
    """Report why a file cannot be used as an image."""


class Mismatch(Exception):
    """Report that an image does not have the shape of the others; the message tells the remedy."""


@dataclass(frozen=True)
class Target:
    """The shape that all images get, and how."""

    num_channels: int
    height: int
    width: int
    first: str  # name of the image that defines what the settings leave open
    config: DataConfig

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return the channels, height and width."""
        return self.num_channels, self.height, self.width


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(sorted(set(Image.OPEN) - _NOT_PIXELS))


@cache
def _suffixes() -> frozenset[str]:
    formats = _formats()
    known = Image.registered_extensions().items()
    return frozenset(suffix for suffix, kind in known if kind in formats)


def is_image(name: str) -> bool:
    """Return whether a file's suffix belongs to a format that can be decoded."""
    file = name.rpartition("/")[2]
    stem, dot, suffix = file.rpartition(".")
    return bool(stem) and f"{dot}{suffix.lower()}" in _suffixes()


@contextmanager
def strictly() -> Iterator[None]:
    """Treat very large images as errors, in all threads; ignore Pillow's other warnings."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def decode(raw: bytes) -> Image.Image:
    """Decode an image, rotate it upright, and return it in mode L, LA, RGB or RGBA.

    An animation gives its first frame. Raise Broken if the image cannot be decoded completely.
    """
    if not raw:
        raise Broken("it is empty")
    try:
        with Image.open(io.BytesIO(raw), formats=_formats()) as image:
            if image.width * image.height > MAX_PIXELS:
                raise Image.DecompressionBombError
            image.load()
            return _plain(ImageOps.exif_transpose(image), image.format)
    except Broken:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        limit = f"{MAX_PIXELS / 1e6:.0f} million pixels"
        raise Broken(f"it has more than {limit}, which remuda does not decode") from None
    except Image.UnidentifiedImageError:
        raise Broken("it is not an image that Pillow knows") from None
    except Exception as error:  # Pillow's decoders can raise almost any exception
        raise Broken(str(error) or type(error).__name__) from error


def _plain(image: Image.Image, kind: str | None) -> Image.Image:
    """Convert an image with any other mode to L, RGB or RGBA."""
    if image.mode in NUM_CHANNELS:
        return image
    if image.mode.startswith("I;16") or (image.mode == "I" and kind == "PNG"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))  # the upper 8 of 16 bits
    if image.mode in ("I", "F"):
        raise Broken(f"it has pixels of mode {image.mode}, whose range is unknown")
    if image.mode == "1":
        return image.convert("L")
    transparent = image.mode in ("PA", "RGBa", "La") or "transparency" in image.info
    return image.convert("RGBA" if transparent else "RGB")


def target_of(image: Image.Image, name: str, config: DataConfig) -> Target:
    """Return the common shape, as set or as in the first image."""
    height, width = config.sides or (image.height, image.width)
    channels = config.channels or NUM_CHANNELS[image.mode]
    return Target(channels, height, width, name, config)


def shaped(image: Image.Image, name: str, target: Target) -> np.ndarray:
    """Return an image as bytes (C, H, W) with the target's shape."""
    config = target.config
    image = _converted(image, target)
    if NUM_CHANNELS[image.mode] != target.num_channels:
        raise Mismatch(
            f"{name} has {NUM_CHANNELS[image.mode]} channels but {target.first} has "
            f"{target.num_channels}: set data.channels to 1, 3 or 4 to convert all images"
        )
    if image.size != (target.width, target.height):
        if not config.sides:
            raise Mismatch(
                f"{name} is {image.width} x {image.height} but {target.first} is {target.width} x "
                f"{target.height}: set data.size to resize all images"
            )
        image = _resized(image, target)
    pixels = np.asarray(image).reshape(target.height, target.width, target.num_channels)
    return pixels.transpose(2, 0, 1)


def _converted(image: Image.Image, target: Target) -> Image.Image:
    """Convert the channels as set; transparent pixels show the background colour."""
    wanted = _MODES.get(target.num_channels)
    if not target.config.channels or image.mode == wanted:
        return image
    if image.mode in ("LA", "RGBA") and target.num_channels in (1, 3):
        level = _LEVELS[target.config.background]
        behind = Image.new("RGBA", image.size, (level, level, level, 255))
        image = Image.alpha_composite(behind, image.convert("RGBA")).convert("RGB")
    return image.convert(wanted)


def _resized(image: Image.Image, target: Target) -> Image.Image:
    size, method = (target.width, target.height), _FILTERS[target.config.filter]
    if target.config.fit == "stretch":
        return image.resize(size, method)
    if target.config.fit == "crop":  # keep the largest centred part with the aspect ratio
        return ImageOps.fit(image, size, method)
    scale = min(target.width / image.width, target.height / image.height)
    inner = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    bands = len(image.getbands())
    level = _LEVELS[target.config.background]
    # The border of an image with an alpha channel is transparent.
    fill = (level,) * (bands - 1) + (0,) if bands in (2, 4) else (level,) * bands
    padded = Image.new(image.mode, size, fill if bands > 1 else level)
    corner = (target.width - inner[0]) // 2, (target.height - inner[1]) // 2
    padded.paste(image.resize(inner, method), corner)
    return padded
