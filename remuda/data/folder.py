"""Read a folder of images with one sub-folder per class, or with images of a single class.

The listing and the free memory are checked after decoding only the first image.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from PIL import Image, ImageOps

from remuda.data.classes import arrange
from remuda.data.config import DataConfig, Split
from remuda.data.partitions import evenly
from remuda.errors import UserError
from remuda.system.memory import available_bytes

_IMAGES_PER_TASK = 64  # images that one task of the thread pool decodes
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}  # Pillow's mode for a number of channels
_NUM_CHANNELS = {mode: count for count, mode in _MODES.items()}


@dataclass(frozen=True)
class Listing:
    """The images of one split, class by class."""

    classes: tuple[str, ...]
    paths: tuple[Path, ...]
    labels: np.ndarray  # (M,) int64


def read(
    root: Path, config: DataConfig, split: Split
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return images (M, C, size, size), labels (M,) and class names."""
    listing = list_images(root, split)
    labels, classes = arrange(listing.labels, listing.classes, config)
    keep = evenly(labels, config.limit)
    paths = [listing.paths[i] for i in keep]
    size, num_channels = _common_shape(paths[0], config)
    _check_memory(root, len(paths), num_channels, size)
    images = np.empty((len(paths), num_channels, size, size), dtype=np.uint8)

    def decode_from(start: int) -> None:
        for i in range(start, min(start + _IMAGES_PER_TASK, len(paths))):
            images[i] = _decode(paths[i], paths[0], size, num_channels, config)

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for _ in pool.map(decode_from, range(0, len(paths), _IMAGES_PER_TASK)):
            pass  # the first failed task raises its error here and cancels the others
    return images, labels[keep], classes


def list_images(root: Path, split: Split) -> Listing:
    """List the images of a split; sub-folders named train/, test/ or val/ are splits."""
    if not root.is_dir():
        raise UserError(
            f"{root} is not a folder: name a folder of images with --set data.name=folder:PATH"
        )
    name = root.resolve().name  # the name of the only class if there are no class folders
    folders = {child.name for child in _children(root)}
    has_splits = "train" in folders and (folders == {"train"} or bool(folders & {"test", "val"}))
    if split == "test" and has_splits:
        return _list_test(root, name)
    if split == "test":
        _no_test(root)
    return _list_classes(root / "train" if has_splits else root, name)


def _no_test(root: Path) -> NoReturn:
    raise UserError(
        f"{root} has no test split: put the class folders into sub-folders train/ and test/"
    )


def _list_test(root: Path, name: str) -> Listing:
    """List the images in test/, or else in val/, with the labels of train/.

    A folder test/ without the class folders of train/ has no labels, so it is skipped.
    """
    train_classes = [child.name for child in _children(root / "train")]
    for folder in (root / "test", root / "val"):
        if not folder.is_dir():
            continue
        classes = [child.name for child in _children(folder)]
        if not set(classes) <= set(train_classes) or bool(classes) != bool(train_classes):
            continue
        listing = _list_classes(folder, name)
        if not classes:
            return listing
        labels = np.array([train_classes.index(classes[label]) for label in listing.labels])
        return Listing(tuple(train_classes), listing.paths, labels)
    _no_test(root)


def _list_classes(root: Path, name: str) -> Listing:
    """List every sub-folder as a class, or the images in the folder itself as one class."""
    folders = _children(root)
    loose = _images_in(root, recursive=False)
    if folders and loose:
        raise UserError(
            f"{root} contains both images (such as {loose[0].name}) and folders (such as "
            f"{folders[0].name}): keep one folder for each class, or only images"
        )
    groups = [_images_in(folder, recursive=True) for folder in folders] if folders else [loose]
    for folder, group in zip(folders or [root], groups, strict=True):
        if not group:
            raise UserError(
                f"{folder} contains no images that Pillow can read: add some or delete the folder"
            )
    classes = tuple(folder.name for folder in folders) or (name,)
    labels = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    return Listing(classes, tuple(path for group in groups for path in group), labels)


def _children(folder: Path) -> list[Path]:
    """Return the visible sub-folders, sorted by name."""
    try:
        return sorted(
            child for child in folder.iterdir() if child.is_dir() and not child.name.startswith(".")
        )
    except OSError as error:
        raise UserError(
            f"cannot list {folder} ({error.strerror}): check its permissions"
        ) from error


def _images_in(folder: Path, *, recursive: bool) -> list[Path]:
    """Return visible files whose suffix belongs to a format that Pillow reads, sorted by path."""
    Image.init()
    formats = Image.registered_extensions().items()
    suffixes = {suffix for suffix, kind in formats if kind in Image.OPEN}
    found = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if recursive and not name.startswith(".")]
        visible = [Path(parent, name) for name in files if not name.startswith(".")]
        found += [path for path in visible if path.suffix.lower() in suffixes]
    return sorted(found)


def _common_shape(path: Path, config: DataConfig) -> tuple[int, int]:
    """Return the side and channels of all images, as set or as in the first image."""
    image = _open(path)
    stored = _NUM_CHANNELS[image.mode]
    if config.channels not in (0, 1, 3, stored):
        raise UserError(
            f"data.channels must be 0, 1, 3 or the {stored} that {path} has, not {config.channels}"
        )
    if not config.size and image.width != image.height:
        raise UserError(
            f"{path} is not square but {image.width} x {image.height}: set data.size to resize "
            "and crop all images"
        )
    return config.size or image.width, config.channels or stored


def _check_memory(root: Path, count: int, num_channels: int, size: int) -> None:
    needed, free = count * num_channels * size * size, available_bytes()
    if free is not None and needed > free:
        fitting = free * count // needed
        raise UserError(
            f"the {count} images of {root} need {needed / 1e9:.1f} GB at {num_channels} x {size} x "
            f"{size}, but only {free / 1e9:.1f} GB of memory is free: set data.limit to at most "
            f"{max(1, fitting)}, or set a smaller data.size"
        )


def _decode(
    path: Path, first: Path, size: int, num_channels: int, config: DataConfig
) -> np.ndarray:
    """Return one image (C, size, size), uint8."""
    image = _open(path)
    if config.channels and image.mode != _MODES[num_channels]:
        image = image.convert(_MODES[num_channels])
    if _NUM_CHANNELS[image.mode] != num_channels:
        raise UserError(
            f"{path} has {_NUM_CHANNELS[image.mode]} channels but {first} has {num_channels}: "
            "set data.channels to 1 or 3 to convert all images"
        )
    if image.size != (size, size):
        if not config.size:
            raise UserError(
                f"{path} is {image.width} x {image.height} but {first} is {size} x {size}: "
                "set data.size to resize and crop all images"
            )
        # Keep the largest centred square.
        image = ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(size, size, num_channels).transpose(2, 0, 1)


def _open(path: Path) -> Image.Image:
    """Decode an image, rotate it upright, and return it in mode L, LA, RGB or RGBA."""
    try:
        with Image.open(path) as image:
            image.load()
            return _plain(ImageOps.exif_transpose(image), image.format, path)
    except UserError:
        raise
    except Exception as error:  # Pillow's decoders can raise almost any exception
        raise UserError(f"cannot read the image {path} ({error}): repair or delete it") from error


def _plain(image: Image.Image, kind: str | None, path: Path) -> Image.Image:
    """Convert an image with any other mode to L, RGB or RGBA."""
    if image.mode in _NUM_CHANNELS:
        return image
    if image.mode.startswith("I;16") or (image.mode == "I" and kind == "PNG"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))  # the upper 8 of 16 bits
    if image.mode in ("I", "F"):
        raise UserError(
            f"{path} has pixels of mode {image.mode}, whose range is unknown: convert it to 8 bits "
            "per channel"
        )
    if image.mode == "1":
        return image.convert("L")
    transparent = image.mode in ("PA", "RGBa", "La") or "transparency" in image.info
    return image.convert("RGBA" if transparent else "RGB")
