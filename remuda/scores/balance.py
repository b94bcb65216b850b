"""Measure whether generated images have the same distribution over classes as the data."""

import torch
from torch import Tensor

from remuda.errors import UserError
from remuda.scores.checks import check_labels, check_probabilities


def class_imbalance(probabilities: Tensor, reference: Tensor) -> float:
    """Return the total variation distance between predicted and reference classes, 0 to 1.

    The distance is half the sum over classes of the absolute difference between the two shares.
    ``probabilities`` (n, classes) describe the generated images; each image counts for its most
    probable class. ``reference`` (m,) contains the labels of the data. By chance, n images from a
    fair generator have a distance of about (2 pi n)^(-1/2) times the sum over classes of
    (p (1 - p))^(1/2), where p is the share of a class. For 10 equal classes and 10,000 images,
    this is 0.012.
    """
    check_probabilities(probabilities, at_least=2)
    num_classes = probabilities.shape[1]
    check_labels(reference, reference.numel(), num_classes, "reference")
    if len(reference) == 0:
        raise UserError(
            "the reference has no labels to compare with: pass the labels of a whole split"
        )
    return total_variation(probabilities.argmax(1), reference.to(probabilities.device), num_classes)


def total_variation(labels: Tensor, reference: Tensor, num_classes: int) -> float:
    """Return the distance between the class shares of two lists of labels."""
    shares, expected = (
        torch.bincount(each.long(), minlength=num_classes).double() for each in (labels, reference)
    )
    return float((shares / shares.sum() - expected / expected.sum()).abs().sum()) / 2
