"""By which network images of a data set are seen."""

from collections.abc import Callable

import torch

from remuda.data import DataConfig
from remuda.scores.base import FeatureNetwork
from remuda.scores.features.classifier import find_classifier
from remuda.scores.features.inception import find_inception


def find_network(
    data: DataConfig,
    shape: tuple[int, ...],
    classifier: str,
    device: torch.device,
    say: Callable[[str], None],
) -> FeatureNetwork:
    """Inception for colour images, unless ``classifier`` is "train"; else a classifier of the data's own classes."""
    if classifier == "auto" and shape[0] == 3:
        return find_inception(data.path, device)
    return find_classifier(data, device, say=say)
