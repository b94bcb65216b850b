"""Load data sets by name; each becomes an instance of Dataset in memory."""

import difflib
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from remuda.data import cifar, folder, idx, synthetic
from remuda.data.choices import DATASETS
from remuda.data.classes import arrange
from remuda.data.config import FOLDER, DataConfig, Split
from remuda.data.files import Found, obtain
from remuda.data.images import resize, to_bytes, to_colour, to_grey, to_unit
from remuda.data.partitions import evenly, places_in_class
from remuda.data.sources import SOURCES
from remuda.errors import UserError

__all__ = ["DATASETS", "Dataset", "load", "to_bytes", "to_unit"]

_DIGITS = tuple(map(str, range(10)))
_FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
_CIFAR10 = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images in memory, with their classes."""

    name: str
    images: Tensor  # (M, C, H, W) uint8; synthetic points: (M, 2, 1, 1) float32 in (-1, 1)
    labels: Tensor  # (M,) int64, indices into classes
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        assert self.images.dim() == 4 and self.labels.shape == self.images.shape[:1]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return the channels, height and width of one image."""
        _, channels, height, width = self.images.shape
        return channels, height, width

    @property
    def counts(self) -> list[int]:
        """Return the number of images of each class."""
        return torch.bincount(self.labels, minlength=len(self.classes)).tolist()


def load(config: DataConfig, split: Split = "train") -> Dataset:
    """Load the data set config.name, and apply the limit, size, channels and classes of config.

    Missing files are downloaded first; see docs/data.md.

    Args:
        config: the data set and its settings.
        split: "train" or "test".

    Raises:
        UserError: if the data set is unknown, missing or damaged; the message says what to do.
    """
    if config.is_per_rank:
        raise UserError(
            "cannot load data with {rank} or {host} in data.name or data.path outside a run: write "
            "the name or path of one rank"
        )
    if config.name.startswith(FOLDER):
        return _folder(config, split)
    if config.name not in DATASETS:
        raise UserError(_unknown(config.name))
    dataset: Dataset = DATASETS[config.name](config, split)
    numbers, classes = arrange(dataset.labels.numpy(), dataset.classes, config)
    keep, labels = torch.from_numpy(evenly(numbers, config.limit)), torch.from_numpy(numbers)
    dataset = replace(dataset, images=dataset.images[keep], labels=labels[keep], classes=classes)
    return _shaped(dataset, config)


def _shaped(dataset: Dataset, config: DataConfig) -> Dataset:
    images = dataset.images
    if images.is_floating_point():
        if config.size or config.channels:
            raise UserError(
                f"{dataset.name} has points instead of pixels: leave data.size and data.channels "
                "at 0"
            )
        if config.mirror:
            raise UserError(
                f"{dataset.name} has points, which cannot be mirrored: leave data.mirror at false"
            )
        return dataset
    num_channels = images.shape[1]
    if config.channels == 3 and num_channels == 1:
        images = to_colour(images)
    elif config.channels == 1 and num_channels == 3:
        images = to_grey(images)
    elif config.channels not in (0, num_channels):
        raise UserError(
            f"data.channels must be 0, 1 or 3 for {dataset.name}, not {config.channels}"
        )
    if config.size:
        images = resize(images, config.size)
    return replace(dataset, images=images)


def _unknown(name: str) -> str:
    if name and Path(name).expanduser().is_dir():
        return f"data.name {name!r} is a folder: write {FOLDER}{name} to read its images"
    known = [*DATASETS, FOLDER + "PATH"]
    (nearest,) = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.0)
    return f"unknown data set {name!r}: did you mean {nearest}? Choose one of {', '.join(known)}"


def _dataset(
    name: str, images: np.ndarray, labels: np.ndarray, classes: tuple[str, ...]
) -> Dataset:
    # Copy the array if it is a read-only view of a file's bytes.
    writable = images if images.flags.writeable else images.copy()
    return Dataset(name, torch.from_numpy(writable), torch.from_numpy(labels), classes)


def _digits(config: DataConfig, split: Split) -> Dataset:
    """Load scikit-learn's digits; the test split is every sixth image of each class."""
    values = np.loadtxt(_digits_file(), delimiter=",")  # 64 pixels from 0 to 16, then the label
    pixels, labels = values[:, :-1], values[:, -1].astype(np.int64)
    in_test = places_in_class(labels) % 6 == 5
    keep = in_test if split == "test" else ~in_test
    images = np.round(pixels[keep] * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    return _dataset("digits", images, labels[keep], _DIGITS)


def _digits_file() -> Path:
    """Return the file of the digits, without importing scikit-learn, which takes a second."""
    package = find_spec("sklearn")
    assert package is not None and package.origin is not None, "remuda requires scikit-learn"
    return Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"


def _idx(config: DataConfig, split: Split, classes: tuple[str, ...]) -> Dataset:
    images_path, labels_path = obtain(SOURCES[config.name], split, config).paths
    return _dataset(config.name, *idx.read_pair(images_path, labels_path, len(classes)), classes)


def _mnist(config: DataConfig, split: Split) -> Dataset:
    return _idx(config, split, _DIGITS)


def _fashion_mnist(config: DataConfig, split: Split) -> Dataset:
    return _idx(config, split, _FASHION)


def _cifar10(config: DataConfig, split: Split) -> Dataset:
    found = obtain(SOURCES["cifar10"], split, config)
    classes = _cifar_names(found, "batches.meta.txt", "batches.meta", "label_names", _CIFAR10)
    if found.kind == "binary":
        return _dataset("cifar10", *cifar.read_binary(found.paths, 1, 10), classes)
    return _dataset("cifar10", *cifar.read_python(found.paths, "labels", 10), classes)


def _cifar100(config: DataConfig, split: Split) -> Dataset:
    found = obtain(SOURCES["cifar100"], split, config)
    numbered = tuple(f"class {label}" for label in range(100))
    classes = _cifar_names(found, "fine_label_names.txt", "meta", "fine_label_names", numbered)
    if found.kind == "binary":
        return _dataset("cifar100", *cifar.read_binary(found.paths, 2, 100), classes)
    return _dataset("cifar100", *cifar.read_python(found.paths, "fine_labels", 100), classes)


def _cifar_names(
    found: Found, text: str, meta: str, key: str, default: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the class names from the optional file next to the batches."""
    path = found.folder / (text if found.kind == "binary" else meta)
    if not path.is_file():
        return default
    names = cifar.read_names(path, key)
    if len(names) != len(default):
        raise UserError(
            f"{path} names {len(names)} classes instead of {len(default)}: repair or delete it"
        )
    return names


def _ring(config: DataConfig, split: Split) -> Dataset:
    return _points("ring", split)


def _grid(config: DataConfig, split: Split) -> Dataset:
    return _points("grid", split)


def _points(name: str, split: Split) -> Dataset:
    classes = tuple(f"mode {i}" for i in range(len(synthetic.MODES[name].centres)))
    return Dataset(name, *synthetic.points(name, split), classes)


def _folder(config: DataConfig, split: Split) -> Dataset:
    path = config.name.removeprefix(FOLDER)
    if not path:
        raise UserError(
            "data.name=folder: needs a path: write folder:PATH with the path of a folder of images"
        )
    return _dataset(config.name, *folder.read(Path(path).expanduser(), config, split))
