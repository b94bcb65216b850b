"""What no score can be made of: the same sentences for all of them.

``name`` says in a sentence whose features they are: "real images", "generated images of class 3".
"""

import torch
from torch import Tensor

from remuda.errors import UserError

# Equal images in batches of different sizes get float32 features that differ by rounding, so "equal" has this slack,
# relative to the largest feature.
EQUAL = 1e-5


def check_features(features: Tensor, name: str, at_least: int = 2) -> None:
    """Finite (n, d), n large enough, and not one and the same row n times."""
    check_rows(features, name, at_least)
    if len(features) > 1:
        spread = (features.amax(0) - features.amin(0)).max()
        check_spread(float(spread), float(features.abs().max()), name)


def check_rows(features: Tensor, name: str, at_least: int) -> None:
    """As check_features, but the rows may be equal."""
    if features.ndim != 2 or features.shape[1] == 0 or not features.is_floating_point():
        raise UserError(
            f"features of the {name} must be a matrix of floating-point numbers with one row per image, but are "
            f"{tuple(features.shape)} of {features.dtype}: pass what a feature network returns"
        )
    if len(features) < at_least:
        raise UserError(
            f"this score needs at least {at_least} {name}, but there {_are(len(features))}: take more of them"
        )
    if not all(bool(chunk.isfinite().all()) for chunk in features.split(8192)):
        raise UserError(
            f"the features of the {name} hold NaN or infinity, so they have no score: check whether the training "
            "diverged, and score an earlier checkpoint"
        )


def check_spread(spread: float, scale: float, name: str) -> None:
    if spread <= EQUAL * scale:
        raise UserError(
            f"all {name} are equal, which no score describes: check whether the generator collapsed, and score an "
            "earlier checkpoint"
        )


def check_widths(real: int, fake: int) -> None:
    if real != fake:
        raise UserError(
            f"real images have {real} features each, but generated ones {fake}: take both from the same feature network"
        )


def check_probabilities(probabilities: Tensor, at_least: int) -> None:
    """Rows that sum to 1, enough of them, not all the same.

    The same means the same bits here: a network that is sure of the one class that a generator makes gives rows
    that are very close, and that is a score; but only equal images give equal bits.
    """
    check_rows(probabilities, "generated images", at_least)
    if (
        float(probabilities.min()) < 0
        or float((probabilities.double().sum(1) - 1).abs().max()) > 1e-3
    ):
        raise UserError(
            "class probabilities must be at least 0 and sum to 1 for each image: pass the network's softmax, not its "
            "logits"
        )
    if len(probabilities) > 1 and bool((probabilities == probabilities[0]).all()):
        check_spread(0.0, 1.0, "generated images")


def check_labels(labels: Tensor, count: int, num_classes: int, name: str) -> None:
    """One class number for each of count images."""
    if labels.shape != (count,) or labels.is_floating_point() or labels.dtype == torch.bool:
        raise UserError(
            f"labels of the {name} must be {count} whole numbers, one per image, but are {tuple(labels.shape)} of "
            f"{labels.dtype}: pass the labels that belong to these images"
        )
    if count and not 0 <= int(labels.min()) <= int(labels.max()) < num_classes:
        raise UserError(
            f"labels of the {name} run from {int(labels.min())} to {int(labels.max())}, but there are {num_classes} "
            "classes, counted from 0: pass labels of the same data set"
        )


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count}"
