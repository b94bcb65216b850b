"""Choose the feature extractor for a data set."""

import torch

from remuda.data import DataConfig
from remuda.scores.base import FeatureExtractor
from remuda.scores.features.classifier import find_classifier
from remuda.scores.features.inception import find_inception
from remuda.system.text import Notify, ignore


def find_extractor(
    data: DataConfig,
    shape: tuple[int, ...],
    classifier: str,
    device: torch.device,
    notify: Notify = ignore,
) -> FeatureExtractor:
    """Return Inception for colour images, otherwise a classifier of the data's own classes.

    With ``classifier="train"``, use a classifier for colour images too.
    """
    if classifier == "auto" and shape[0] == 3:
        return find_inception(data.path, device)
    return find_classifier(data, device, notify=notify)
