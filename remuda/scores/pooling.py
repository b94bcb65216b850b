"""Combine the scores of samples against the images of several sites."""

import math
from collections.abc import Callable, Sequence

import torch

from remuda.errors import UserError
from remuda.scores.kinds import Measure, Measured


def combine(
    measured: Sequence[Measured],
    num_images: Sequence[int],
    class_counts: Sequence[Sequence[int]],
    of_classes: Callable[[Sequence[float]], float],
) -> Measured:
    """Return one measure for the values of all sites, which have these numbers of images.

    - A fraction of the samples counts every sample that counts at one of the sites.
    - The value of a class is the mean over the sites that have it, weighted by their images of
      this class. ``of_classes`` turns the values of the classes into one.
    - Any other value is the mean over the sites, weighted by their images.
    """
    names = measured[0]
    return {
        name: _combine([one[name] for one in measured], num_images, class_counts, of_classes)
        for name in names
    }


def _combine(
    parts: Sequence[Measure],
    num_images: Sequence[int],
    class_counts: Sequence[Sequence[int]],
    of_classes: Callable[[Sequence[float]], float],
) -> Measure:
    hits = [part.hits for part in parts if part.hits is not None]
    if len(hits) == len(parts):
        return Measure(float(torch.stack([each.cpu() for each in hits]).any(0).double().mean()))
    classes = [part.classes for part in parts if part.classes is not None]
    if len(classes) == len(parts):
        values = [
            _mean_of_class(label, [each[label] for each in classes], class_counts)
            for label in range(len(classes[0]))
        ]
        return Measure(of_classes(values), None, values)
    return Measure(_mean([part.value for part in parts], num_images))


def _mean_of_class(
    label: int, values: Sequence[float], class_counts: Sequence[Sequence[int]]
) -> float:
    """Return the mean over the sites that have the class; the others have NaN."""
    found = [
        (value, counts[label])
        for value, counts in zip(values, class_counts, strict=True)
        if not math.isnan(value)
    ]
    if not found:
        raise UserError(f"no site has enough images of class {label}: leave the score out")
    return _mean(*zip(*found, strict=True))


def _mean(values: Sequence[float], weights: Sequence[int]) -> float:
    products = (value * weight for value, weight in zip(values, weights, strict=True))
    return sum(products) / sum(weights)
