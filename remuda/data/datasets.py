"""Load data sets by name; each becomes an instance of Dataset."""

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
from remuda.data.storage import ImageFile
from remuda.errors import UserError
from remuda.system import parts

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
    """Images with their classes."""

    name: str
    images: Tensor  # (M, C, H, W) uint8; synthetic points: (M, 2, 1, 1) float32 in (-1, 1)
    labels: Tensor  # (M,) int64, indices into classes
    classes: tuple[str, ...]
    num_skipped: int = 0  # broken files that data.skip_broken left out
    # if the images are on disk: their file; ``images`` then reads them when they are used
    file: ImageFile | None = None

    def __post_init__(self) -> None:
        if self.images.dim() != 4 or self.labels.shape != self.images.shape[:1]:
            shapes = f"{tuple(self.images.shape)} and {tuple(self.labels.shape)}"
            raise UserError(
                f"a data set has images (n, C, H, W) and labels (n,), not {shapes}: reshape them"
            )

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
    if config.is_images:
        return _folder(config, split)
    if config.name not in DATASETS:
        raise UserError(_unknown(config.name))
    if config.storage == "disk":
        raise UserError(
            f"{config.name} is always in memory: leave data.storage at auto, which is meant for "
            f"{FOLDER}PATH"
        )
    dataset = _called(config, split)
    numbers, classes = arrange(dataset.labels.numpy(), dataset.classes, config)
    keep, labels = torch.from_numpy(evenly(numbers, config.limit)), torch.from_numpy(numbers)
    dataset = replace(dataset, images=dataset.images[keep], labels=labels[keep], classes=classes)
    return _shaped(dataset, config)


def _called(config: DataConfig, split: Split) -> Dataset:
    """Return what the data set's function returns; explain mistakes in users' functions."""
    load_data = DATASETS[config.name]
    if not parts.is_reference(config.name) and not DATASETS.package(config.name):
        return load_data(config, split)
    try:
        dataset = load_data(config, split)
        problem = mistake(dataset)
    except UserError:
        raise
    except Exception as error:
        problem = f"it raises {type(error).__name__}: {error}"
    if problem:
        raise UserError(
            f"the data set {config.name} cannot be used, because {problem}: correct its function"
        )
    return dataset


def mistake(dataset: object) -> str:
    """Say what is wrong with the result of a user's function; an empty text if nothing is."""
    if not isinstance(dataset, Dataset):
        return f"its type is {type(dataset).__name__} instead of remuda.data.Dataset"
    images, labels, num_classes = dataset.images, dataset.labels, len(dataset.classes)
    is_point = tuple(images.shape[1:]) == (2, 1, 1) and images.dtype == torch.float32
    if images.dtype != torch.uint8 and not is_point:
        return f"its images are {images.dtype} instead of torch.uint8 from 0 to 255"
    if not len(images):
        return "it has no images"
    if labels.dtype != torch.int64 or not 0 <= int(labels.min()) <= int(labels.max()) < num_classes:
        return f"its labels must be whole numbers (torch.int64) from 0 to {num_classes - 1}"
    return ""


def _shaped(dataset: Dataset, config: DataConfig) -> Dataset:
    images = dataset.images
    if images.is_floating_point():
        if config.sides or config.channels:
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
    if config.sides:
        images = resize(images, config.sides, config)
    return replace(dataset, images=images)


def _unknown(name: str) -> str:
    path = Path(name).expanduser()
    if name and (path.is_dir() or (path.suffix in (".zip", ".tar") and path.is_file())):
        kind = "a folder" if path.is_dir() else "an archive"
        return f"data.name {name!r} is {kind}: write {FOLDER}{name} to read its images"
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
    found = folder.read(config.images_path, config, split)
    labels = torch.from_numpy(found.labels)
    return Dataset(config.name, found.images, labels, found.classes, found.num_skipped, found.file)
