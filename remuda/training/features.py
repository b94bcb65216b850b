"""Compare images by the features of the network that the scores also use."""

from dataclasses import replace

import numpy as np
import torch

from remuda.config import RunConfig
from remuda.data import Dataset
from remuda.data.images import to_bytes, to_unit
from remuda.engines import Communicator
from remuda.errors import UserError
from remuda.model.sources import data_rank
from remuda.scores.features.extractor import find_extractor
from remuda.scores.features.sharing import share
from remuda.strategies.context import FeatureExtractor
from remuda.system import progress
from remuda.system.text import Notify

NUM_IMAGES = 200  # of each class, to compare classes
ADVICE = "to start sooner, list the families in strategy.families"


def feature_extractor(
    config: RunConfig,
    dataset: Dataset,
    device: torch.device,
    communicator: Communicator,
    notify: Notify,
) -> FeatureExtractor:
    """Return the feature extractor that the scores also use: on every rank, that of rank 0."""
    if dataset.images.is_floating_point():
        raise UserError(
            f"{dataset.name} has points, which have no feature extractor: leave "
            "strategy.mixture_by at pixels, and list strategy.families instead of setting "
            "strategy.num_families"
        )
    own = config.data.at(data_rank(config, communicator), communicator.host)
    found = None
    if communicator.is_root:
        whole = replace(own, limit=0, partition="auto")  # the scores' classifier uses all data
        found = find_extractor(whole, dataset.shape, config.scores.classifier, device, notify)
    extractor, _ = share(communicator, found, 0, own.path, device)
    assert extractor is not None
    return lambda images: extractor(to_bytes(images)).values


def class_distances(
    dataset: Dataset, num_classes: int, features: FeatureExtractor, communicator: Communicator
) -> np.ndarray:
    """Return the distances between the mean features of the first classes, (classes, classes).

    Rank 0 computes them, and all ranks receive the same numbers.
    """
    found = _compare(dataset, num_classes, features).tolist() if communicator.is_root else None
    return np.array(communicator.all_gather(found)[0])


def _compare(dataset: Dataset, num_classes: int, features: FeatureExtractor) -> torch.Tensor:
    chosen = [_images_of(dataset, label) for label in range(num_classes)]
    with progress.tracked("comparing classes", sum(map(len, chosen)), "images", ADVICE):
        means = [features(to_unit(dataset.images[rows])).double().mean(0).cpu() for rows in chosen]
    points = torch.stack(means)
    # Without matrix products, which would round small distances.
    return torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")


def _images_of(dataset: Dataset, label: int) -> torch.Tensor:
    """Return the places of the images that represent a class."""
    rows = (dataset.labels == label).nonzero()[:NUM_IMAGES, 0]
    if not len(rows):
        raise UserError(
            f"rank 0 has no images of class {dataset.classes[label]} to compare it with other "
            "classes: list the families in strategy.families instead of strategy.num_families"
        )
    return rows
