"""Tell users how to wait less for Inception, which is slow on a CPU."""

from remuda.data import Dataset
from remuda.errors import UserError
from remuda.scores.base import FeatureExtractor
from remuda.scores.features.classifier import check_classes
from remuda.scores.features.inception import Inception


def advice(extractor: FeatureExtractor, dataset: Dataset, is_reference: bool) -> str:
    """Return how to wait less for features of the real images or of samples; "" for nothing."""
    if not isinstance(extractor, Inception) or extractor.device.type != "cpu":
        return ""
    if is_reference:
        options = ["wait (these features are computed only once for these data)"]
    else:
        options = ["use a smaller --n (scores.samples)"]
    try:
        check_classes(dataset)
        options.append("use --classifier train (scores.classifier), a small network")
    except UserError:  # the data have no classes, or large images
        pass
    return f"Inception is slow on a CPU; {', or '.join(options)}"
