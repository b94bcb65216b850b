"""What the real images look like to a feature network: computed once, and kept in the cache."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from remuda.data import Dataset
from remuda.data.partitions import evenly
from remuda.errors import UserError
from remuda.scores.base import FeatureNetwork, Features
from remuda.scores.digests import image_digest, tensor_digest, text_digest
from remuda.scores.features import cache
from remuda.scores.gaussian import Gaussian

SAMPLE = 10_000  # images whose features are kept; the mean and the covariance are those of all
_CHUNK = 5_000  # images that are looked at between two updates of the statistics


@dataclass(frozen=True, eq=False)
class Reference:
    """One split of the data."""

    name: str  # of the data set
    split: str
    images: Tensor
    labels: Tensor
    digest: str  # of the images
    key: str  # of images and labels: of which ones the features are kept depends on these
    gaussian: Gaussian | None  # of the features of all images; None where no network looks at them
    features: Features | None  # of the images at ``rows``
    rows: Tensor  # spread evenly over the classes

    @property
    def sample_labels(self) -> Tensor:
        return self.labels[self.rows]


def look(
    dataset: Dataset,
    split: str,
    network: FeatureNetwork | None,
    device: torch.device,
    say: Callable[[str], None],
) -> Reference:
    """Through the network's eyes, or without one."""
    digest = image_digest(dataset.images)
    key = text_digest(f"{digest} {tensor_digest({'labels': dataset.labels})}")
    rows = torch.from_numpy(evenly(dataset.labels.numpy(), SAMPLE))
    gaussian = features = None
    if network is not None:
        path = (
            cache.folder("references")
            / f"{network.name}-{text_digest(f'{key} {network.digest} {SAMPLE}')}.st"
        )
        found = _read(path, device, say)
        if found is None:
            say(
                f"{network.name} looks at the {len(dataset.images):,} {split} images, once for these data"
            )
            found = _look_at_all(dataset.images, rows, network)
            _keep(path, found, say)
        gaussian, features = found
    return Reference(
        dataset.name, split, dataset.images, dataset.labels, digest, key, gaussian, features, rows
    )


def _look_at_all(
    images: Tensor, rows: Tensor, network: FeatureNetwork
) -> tuple[Gaussian, Features]:
    wanted = torch.zeros(len(images), dtype=torch.bool)
    wanted[rows] = True
    gaussian: Gaussian | None = None
    kept: list[Features] = []
    for some in torch.arange(len(images)).split(_CHUNK):
        seen = network(images[some])
        if gaussian is None:
            gaussian = Gaussian(seen.values.shape[1], seen.values.device)
        gaussian.update(seen.values)
        kept.append(seen.rows(wanted[some].nonzero()[:, 0].to(seen.values.device)))
    if gaussian is None:
        raise UserError("a split without images cannot be a reference: score against the other one")
    values = torch.cat([part.values for part in kept])
    probabilities = [part.probabilities for part in kept if part.probabilities is not None]
    return gaussian, Features(values, torch.cat(probabilities) if probabilities else None)


def _read(
    path: Path, device: torch.device, say: Callable[[str], None]
) -> tuple[Gaussian, Features] | None:
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
        say(f"{path} cannot be used ({error}), so the reference is computed again")
        return None


def _keep(path: Path, found: tuple[Gaussian, Features], say: Callable[[str], None]) -> None:
    gaussian, features = found
    tensors = gaussian.tensors() | {"features": features.values}
    if features.probabilities is not None:
        tensors["probabilities"] = features.probabilities
    try:
        cache.write(path, tensors, {"digest": tensor_digest(tensors)})
    except OSError as error:
        say(
            f"statistics of the reference cannot be kept in {path.parent} ({error}): set REMUDA_CACHE"
        )
