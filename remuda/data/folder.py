"""A folder of images, one sub-folder per class; or images alone, which are one class.

Nothing is decoded before the listing, the sizes and the memory are known to be in order.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from PIL import Image, ImageOps

from remuda.data.config import DataConfig, Split
from remuda.data.partitions import evenly
from remuda.errors import UserError
from remuda.system.memory import available_bytes

_RUN = 64  # images that one task of the thread pool decodes
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
    """Images (M, C, size, size), labels (M,) and class names."""
    listing = list_images(root, split)
    keep = evenly(listing.labels, config.limit)
    paths = [listing.paths[i] for i in keep]
    size, num_channels = _common_shape(paths[0], config)
    _check_memory(root, len(paths), num_channels, size)
    images = np.empty((len(paths), num_channels, size, size), dtype=np.uint8)

    def decode_run(start: int) -> None:
        for i in range(start, min(start + _RUN, len(paths))):
            images[i] = _decode(paths[i], paths[0], size, num_channels, config)

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for _ in pool.map(decode_run, range(0, len(paths), _RUN)):
            pass  # raises what a task raised, and cancels the others
    return images, listing.labels[keep], listing.classes


def list_images(root: Path, split: Split) -> Listing:
    """The images of a split; where there are train/ and test/ or val/, these are the splits."""
    if not root.is_dir():
        raise UserError(
            f"folder:{root} is not a folder: name one with images by --set data.name=folder:PATH"
        )
    name = root.resolve().name  # of the one class, where there are no class folders
    folders = {child.name for child in _children(root)}
    has_splits = "train" in folders and (folders == {"train"} or bool(folders & {"test", "val"}))
    if split == "test" and has_splits:
        return _list_test(root, name)
    if split == "test":
        _no_test(root)
    return _list_classes(root / "train" if has_splits else root, name)


def _no_test(root: Path) -> NoReturn:
    raise UserError(
        f"folder:{root} has no test split: put class folders into its sub-folders train/ and test/"
    )


def _list_test(root: Path, name: str) -> Listing:
    """test/ or else val/, with the labels of train/; a test/ without class folders has no labels to use."""
    train_classes = [child.name for child in _children(root / "train")]
    for folder in (root / "test", root / "val"):
        classes = [child.name for child in _children(folder)] if folder.is_dir() else []
        if (
            not folder.is_dir()
            or not set(classes) <= set(train_classes)
            or bool(classes) != bool(train_classes)
        ):
            continue
        listing = _list_classes(folder, name)
        if not classes:
            return listing
        labels = np.array([train_classes.index(classes[label]) for label in listing.labels])
        return Listing(tuple(train_classes), listing.paths, labels)
    _no_test(root)


def _list_classes(root: Path, name: str) -> Listing:
    """Every sub-folder as a class, or the images right here as the one class of this name."""
    folders = _children(root)
    loose = _images_in(root, recursive=False)
    if folders and loose:
        raise UserError(
            f"{root} holds both images, such as {loose[0].name}, and folders, such as {folders[0].name}: "
            "keep one folder for each class, or images alone"
        )
    groups = [_images_in(folder, recursive=True) for folder in folders] if folders else [loose]
    for folder, group in zip(folders or [root], groups, strict=True):
        if not group:
            raise UserError(
                f"{folder} holds no images that Pillow can read: put some there or remove the folder"
            )
    classes = tuple(folder.name for folder in folders) or (name,)
    labels = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    return Listing(classes, tuple(path for group in groups for path in group), labels)


def _children(folder: Path) -> list[Path]:
    """The visible sub-folders, by name."""
    try:
        return sorted(
            child for child in folder.iterdir() if child.is_dir() and not child.name.startswith(".")
        )
    except OSError as error:
        raise UserError(
            f"{folder} cannot be listed ({error.strerror}): check its permissions"
        ) from error


def _images_in(folder: Path, *, recursive: bool) -> list[Path]:
    """The visible files whose suffix is that of a format that Pillow opens, by path."""
    Image.init()
    suffixes = {
        suffix for suffix, kind in Image.registered_extensions().items() if kind in Image.OPEN
    }
    found = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if recursive and not f.startswith(".")]
        found += [
            Path(parent, f)
            for f in files
            if not f.startswith(".") and Path(f).suffix.lower() in suffixes
        ]
    return sorted(found)


def _common_shape(path: Path, config: DataConfig) -> tuple[int, int]:
    """Side and number of channels of all images, from the first of them and from what the user asks for."""
    image = _open(path)
    stored = _NUM_CHANNELS[image.mode]
    if config.channels not in (0, 1, 3, stored):
        raise UserError(
            f"data.channels must be 0, 1, 3 or the {stored} that {path} has, not {config.channels}"
        )
    if not config.size and image.width != image.height:
        raise UserError(
            f"{path} is not square but {image.width} x {image.height}: set data.size to have "
            "all images resized and cropped"
        )
    return config.size or image.width, config.channels or stored


def _check_memory(root: Path, count: int, num_channels: int, size: int) -> None:
    needed, free = count * num_channels * size * size, available_bytes()
    if free is not None and needed > free:
        fitting = free * count // needed
        raise UserError(
            f"the {count} images of {root} need {needed / 1e9:.1f} GB at {num_channels} x {size} x {size} "
            f"but {free / 1e9:.1f} GB of memory are free: set data.limit to at most {max(1, fitting)}, or a smaller "
            "data.size"
        )


def _decode(
    path: Path, first: Path, size: int, num_channels: int, config: DataConfig
) -> np.ndarray:
    """One image (C, size, size), uint8."""
    image = _open(path)
    if config.channels and image.mode != _MODES[num_channels]:
        image = image.convert(_MODES[num_channels])
    if _NUM_CHANNELS[image.mode] != num_channels:
        raise UserError(
            f"{path} has {_NUM_CHANNELS[image.mode]} channels but {first} has {num_channels}: "
            "set data.channels to 1 or 3 to have all images converted"
        )
    if image.size != (size, size):
        if not config.size:
            raise UserError(
                f"{path} is {image.width} x {image.height} but {first} is {size} x {size}: "
                "set data.size to have all images resized and cropped"
            )
        image = ImageOps.fit(
            image, (size, size), Image.Resampling.BILINEAR
        )  # the largest centred square
    return np.asarray(image).reshape(size, size, num_channels).transpose(2, 0, 1)


def _open(path: Path) -> Image.Image:
    """The decoded image, upright, in one of the modes L, LA, RGB and RGBA."""
    try:
        with Image.open(path) as image:
            image.load()
            return _plain(ImageOps.exif_transpose(image), image.format, path)
    except UserError:
        raise
    except Exception as error:  # Pillow's decoders raise nearly anything on corrupt files
        raise UserError(
            f"{path} is not an image that can be read ({error}): repair or remove it"
        ) from error


def _plain(image: Image.Image, kind: str | None, path: Path) -> Image.Image:
    if image.mode in _NUM_CHANNELS:
        return image
    if image.mode.startswith("I;16") or (image.mode == "I" and kind == "PNG"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))  # 16 bits to the upper 8
    if image.mode in ("I", "F"):
        raise UserError(
            f"{path} has pixels of mode {image.mode}, of unknown range: convert it to 8 bits a channel"
        )
    if image.mode == "1":
        return image.convert("L")
    transparent = image.mode in ("PA", "RGBa", "La") or "transparency" in image.info
    return image.convert("RGBA" if transparent else "RGB")
