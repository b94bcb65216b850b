"""Reject input that cannot be scored, with the same messages for all scores.

``name`` says which images the features describe: "real images", "generated images of class 3".
"""

import torch
from torch import Tensor

from remuda.errors import UserError

# In batches of different sizes, the float32 features of equal images differ by rounding errors.
# Features within this tolerance, relative to the largest feature, count as equal.
EQUAL = 1e-5


def check_features(features: Tensor, name: str, at_least: int = 2) -> None:
    """Raise unless features (n, d) are finite, numerous enough, and not all equal."""
    check_rows(features, name, at_least)
    if len(features) > 1:
        spread = (features.amax(0) - features.amin(0)).max()
        check_spread(float(spread), float(features.abs().max()), name)


def check_rows(features: Tensor, name: str, at_least: int) -> None:
    """Raise unless features (n, d) are finite and numerous enough; they may all be equal."""
    if features.ndim != 2 or features.shape[1] == 0 or not features.is_floating_point():
        raise UserError(
            f"features of the {name} must be a matrix of floating-point numbers with one row per "
            f"image, not {tuple(features.shape)} of {features.dtype}: pass the values that a "
            "feature extractor returns"
        )
    if len(features) < at_least:
        raise UserError(
            f"this score needs at least {at_least} {name}, but there {_are(len(features))}: "
            "use more of them"
        )
    if not all(bool(chunk.isfinite().all()) for chunk in features.split(8192)):
        raise UserError(
            f"the features of the {name} contain NaN or infinity, so they cannot be scored: "
            "check whether the training diverged, and score an earlier checkpoint"
        )


def check_spread(spread: float, scale: float, name: str) -> None:
    """Raise if the spread of features is only rounding error, compared with their scale."""
    if spread <= EQUAL * scale:
        raise UserError(
            f"all {name} are equal, so they cannot be scored: check whether the generator "
            "collapsed, and score an earlier checkpoint"
        )


def check_widths(real: int, fake: int) -> None:
    """Raise unless real and generated images have the same number of features."""
    if real != fake:
        raise UserError(
            f"real images have {real} features each, but generated images have {fake}: use the "
            "same feature extractor for both"
        )


def check_probabilities(probabilities: Tensor, at_least: int) -> None:
    """Raise unless rows sum to 1, are numerous enough, and are not all equal.

    Here, rows are equal only if all bits are equal. If a generator makes only one class and the
    network is certain of it, the rows are almost equal but can still be scored. Only equal images
    give rows with equal bits.
    """
    check_rows(probabilities, "generated images", at_least)
    error = (probabilities.double().sum(1) - 1).abs().max()
    if float(probabilities.min()) < 0 or float(error) > 1e-3:
        raise UserError(
            "class probabilities must be at least 0 and sum to 1 for each image: pass the "
            "network's softmax, not its logits"
        )
    if len(probabilities) > 1 and bool((probabilities == probabilities[0]).all()):
        check_spread(0.0, 1.0, "generated images")


def check_labels(labels: Tensor, count: int, num_classes: int, name: str) -> None:
    """Raise unless there is one class number for each of ``count`` images."""
    if labels.shape != (count,) or labels.is_floating_point() or labels.dtype == torch.bool:
        raise UserError(
            f"labels of the {name} must be {count} whole numbers, one per image, not "
            f"{tuple(labels.shape)} of {labels.dtype}: pass the labels of these images"
        )
    if count and not 0 <= int(labels.min()) <= int(labels.max()) < num_classes:
        raise UserError(
            f"labels of the {name} run from {int(labels.min())} to {int(labels.max())}, but there "
            f"are {num_classes} classes, counted from 0: pass labels of the same data set"
        )


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count}"
