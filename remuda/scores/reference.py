"""Prepare the reference, the real images to compare samples with, and cache its features."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from remuda.data import DataConfig, Dataset
from remuda.data import load as load_data
from remuda.data.config import Split
from remuda.data.partitions import evenly
from remuda.errors import UserError
from remuda.scores.base import FeatureExtractor, Features
from remuda.scores.digests import image_digest, tensor_digest, text_digest
from remuda.scores.features import cache
from remuda.scores.features.advice import advice
from remuda.scores.gaussian import Gaussian
from remuda.system import progress
from remuda.system.locks import lock
from remuda.system.text import Notify

SAMPLE = 10_000  # images whose features are kept; mean and covariance use all images
_CHUNK = 5_000  # images per update of the statistics


@dataclass(frozen=True, eq=False)
class Reference:
    """One split of the data, with its features."""

    name: str  # name of the data set
    split: str
    images: Tensor
    labels: Tensor
    digest: str  # digest of the images
    key: str  # digest of images and labels, which determine the images whose features are kept
    gaussian: Gaussian | None  # statistics of all features; None without a feature extractor
    features: Features | None  # of the images at ``rows``
    rows: Tensor  # indices of images, spread evenly over the classes
    classes: tuple[str, ...] = ()
    is_part: bool = False  # whether other sites have more images

    @property
    def num_images(self) -> int:
        """Return the number of images, also of those at other sites."""
        return len(self.labels)

    @property
    def sample_labels(self) -> Tensor:
        """Return the labels of the images whose features are kept."""
        return self.labels[self.rows]


def first_classes(dataset: Dataset, number: int) -> Dataset:
    """Return the images of the first classes."""
    rows = (dataset.labels < number).nonzero()[:, 0]
    return replace(
        dataset,
        images=dataset.images[rows],
        labels=dataset.labels[rows],
        classes=dataset.classes[:number],
        file=None,  # the images are in memory now
    )


class Splits(NamedTuple):
    """The split to compare with, and the other one, if there is one."""

    dataset: Dataset
    other: Dataset | None

    def first_classes(self, number: int) -> "Splits":
        """Return the images of the first classes."""
        other = None if self.other is None else first_classes(self.other, number)
        return Splits(first_classes(self.dataset, number), other)


def other_split(split: Split) -> Split:
    """Return the name of the other split."""
    return "test" if split == "train" else "train"


def load_splits(data: DataConfig, split: Split, notify: Notify) -> Splits:
    """Load the whole split, even if a run was trained on only part of it, and the other one."""
    data = replace(data, limit=0, partition="auto")
    dataset = load_data(data, split)
    try:
        return Splits(dataset, load_data(data, other_split(split)))
    except UserError as error:
        notify(f"scores have no floors: {error}")
        return Splits(dataset, None)


def make_reference(
    dataset: Dataset,
    split: str,
    extractor: FeatureExtractor | None,
    device: torch.device,
    notify: Notify,
    is_part: bool = False,
) -> Reference:
    """Compute the features of a split, or read them from the cache."""
    digest = image_digest(dataset.images)
    key = text_digest(f"{digest} {tensor_digest({'labels': dataset.labels})}")
    rows = torch.from_numpy(evenly(dataset.labels.numpy(), SAMPLE))
    gaussian = features = None
    if extractor is not None:
        name = f"{extractor.name}-{text_digest(f'{key} {extractor.digest} {SAMPLE}')}.st"
        path = cache.folder("references") / name
        with _locked(path):
            found = _read(path, device, notify)
            if found is None:
                notify(
                    f"computing {extractor.name} features of {len(dataset.images):,} {split} "
                    "images, once for these data"
                )
                hint = advice(extractor, dataset, is_reference=True)
                title = f"computing features of {split} images"
                with progress.tracked(title, len(dataset.images), "images", hint):
                    found = _compute(dataset.images, rows, extractor)
                _keep(path, found, notify)
        gaussian, features = found
    return Reference(
        name=dataset.name,
        split=split,
        images=dataset.images,
        labels=dataset.labels,
        digest=digest,
        key=key,
        gaussian=gaussian,
        features=features,
        rows=rows,
        classes=tuple(dataset.classes),
        is_part=is_part,
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let other processes wait, and then use the same file. A read-only cache has no locks."""
    with ExitStack() as stack:
        with suppress(OSError, UserError):
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock(path.with_name(f".{path.name}.lock"), ""))
        yield


def _compute(
    images: Tensor, rows: Tensor, extractor: FeatureExtractor
) -> tuple[Gaussian, Features]:
    """Return the statistics of the features of all images, and the features at ``rows``."""
    wanted = torch.zeros(len(images), dtype=torch.bool)
    wanted[rows] = True
    gaussian: Gaussian | None = None
    kept: list[Features] = []
    for chunk in torch.arange(len(images)).split(_CHUNK):
        features = extractor(images[chunk])
        device = features.values.device
        if gaussian is None:
            gaussian = Gaussian(features.values.shape[1], device)
        gaussian.update(features.values)
        kept.append(features.rows(wanted[chunk].nonzero()[:, 0].to(device)))
    if gaussian is None:
        raise UserError("a split without images cannot be a reference: use the other split")
    values = torch.cat([part.values for part in kept])
    probabilities = [part.probabilities for part in kept if part.probabilities is not None]
    return gaussian, Features(values, torch.cat(probabilities) if probabilities else None)


def _read(path: Path, device: torch.device, notify: Notify) -> tuple[Gaussian, Features] | None:
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            digest = (file.metadata() or {})["digest"]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if digest != tensor_digest(tensors):
            raise UserError("it does not match its digest")
        tensors = {name: tensor.to(device) for name, tensor in tensors.items()}
        features = Features(tensors.pop("features"), tensors.pop("probabilities", None))
        tensors["count"] = tensors["count"].cpu()
        return Gaussian.from_tensors(tensors), features
    except (OSError, SafetensorError, KeyError, UserError) as error:
        notify(f"cannot use {path} ({error}); computing the features of the reference again")
        return None


def _keep(path: Path, found: tuple[Gaussian, Features], notify: Notify) -> None:
    gaussian, features = found
    tensors = gaussian.tensors() | {"features": features.values}
    if features.probabilities is not None:
        tensors["probabilities"] = features.probabilities
    try:
        cache.write(path, tensors, {"digest": tensor_digest(tensors)})
    except OSError as error:
        notify(
            f"cannot write the features of the reference to {path.parent} ({error}): set "
            "REMUDA_CACHE to a writable folder"
        )
