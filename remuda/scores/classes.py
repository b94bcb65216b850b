"""Scores of each class on its own, where a collapsed class cannot hide among healthy ones."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from remuda.errors import UserError
from remuda.scores.checks import EQUAL, check_features, check_labels, check_rows, check_widths
from remuda.scores.distances import blocks_of_pairs
from remuda.scores.fid import frechet_distance
from remuda.scores.gaussian import Gaussian
from remuda.scores.kid import kernel_distance
from remuda.tensors import random


def class_frechet_distances(
    real: Tensor, real_labels: Tensor, fake: Tensor, fake_labels: Tensor, num_classes: int
) -> list[float]:
    """FID of each class.

    A class has often fewer images than features, so that its covariance has not full rank. The distance exists all the
    same, but its bias is large and differs between classes of different counts: compare one class at equal counts
    only, and prefer class_kernel_distances, which have no bias.
    """
    distances = []
    for label, real_rows, fake_rows in _by_class(real, real_labels, fake, fake_labels, num_classes):
        check_features(real_rows, f"real images of class {label}")
        check_features(fake_rows, f"generated images of class {label}")
        distances.append(frechet_distance(Gaussian.of(real_rows), Gaussian.of(fake_rows)))
    return distances


def class_kernel_distances(
    real: Tensor,
    real_labels: Tensor,
    fake: Tensor,
    fake_labels: Tensor,
    num_classes: int,
    num_subsets: int = 100,
    subset_size: int = 100,
    *,
    key: int,
) -> list[tuple[float, float]]:
    """KID of each class, mean and standard deviation as kernel_distance gives them.

    Subsets are smaller than those of all classes together, as a class may have few images; the mean has no bias at
    any size. 100 subsets of 100 see about as many pairs of images as a class of 1,000 has.
    """
    distances = []
    for label, real_rows, fake_rows in _by_class(real, real_labels, fake, fake_labels, num_classes):
        for rows, name in ((real_rows, "real"), (fake_rows, "generated")):
            check_features(rows, f"{name} images of class {label}", at_least=subset_size)
        stream = int(random.fold(torch.tensor(key), label))
        distances.append(
            kernel_distance(real_rows, fake_rows, num_subsets, subset_size, key=stream)
        )
    return distances


def class_diversities(
    real: Tensor, real_labels: Tensor, fake: Tensor, fake_labels: Tensor, num_classes: int
) -> list[float]:
    """For each class, the mean distance between two generated images over that between two real ones.

    About 1 is healthy, 0 is a class whose images are all the same: here that is an answer, not an error. More than 1
    is possible, and no praise: noise may differ more than pictures do. Counts need not be equal.
    """
    ratios = []
    for label, real_rows, fake_rows in _by_class(real, real_labels, fake, fake_labels, num_classes):
        check_features(real_rows, f"real images of class {label}")
        check_rows(fake_rows, f"generated images of class {label}", at_least=2)
        ratios.append(mean_distance(fake_rows) / mean_distance(real_rows))
    return ratios


def collapsed_classes(
    diversities: Sequence[float], names: Sequence[str], threshold: float = 0.5
) -> list[str]:
    """Names of the classes with a diversity below the threshold.

    A generator that repeats k different images reaches about 1 - 1/k, so 0.5 finds those that know one image, or two
    of unequal frequency.
    """
    return [
        name for name, diversity in zip(names, diversities, strict=True) if diversity < threshold
    ]


def mean_distance(features: Tensor) -> float:
    """The mean Euclidean distance between two different rows; 0 where they are equal but for rounding."""
    spread = (features.amax(0) - features.amin(0)).max()
    if float(spread) <= EQUAL * float(features.abs().max()):
        return 0.0
    total = torch.stack(
        [distances.sqrt_().sum() for _, distances in blocks_of_pairs(features, own=0.0)]
    ).sum()
    return float(total) / (len(features) * (len(features) - 1))


def _by_class(
    real: Tensor, real_labels: Tensor, fake: Tensor, fake_labels: Tensor, num_classes: int
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Label, real rows and generated rows of each class, on the device of real."""
    check_rows(real, "real images", at_least=1)
    check_rows(fake, "generated images", at_least=1)
    check_widths(real.shape[1], fake.shape[1])
    check_labels(real_labels, len(real), num_classes, "real images")
    check_labels(fake_labels, len(fake), num_classes, "generated images")
    if num_classes < 1:
        raise UserError("scores by class need at least 1 class: pass num_classes of the data set")
    real_labels, fake_labels = real_labels.to(real.device), fake_labels.to(fake.device)
    for label in range(num_classes):
        yield label, real[real_labels == label], fake[fake_labels == label].to(real.device)
