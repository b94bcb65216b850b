"""Score each class separately, so that healthy classes cannot hide a collapsed one."""

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
    """Return the FID of each class.

    A class often has fewer images than features, so its covariance does not have full rank. The
    distance is still defined, but its bias is large and depends on the number of images. Compare a
    class only with equal numbers of images, and prefer ``class_kernel_distances``, which has no
    bias.
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
    """Return the KID of each class: mean and standard deviation, as in ``kernel_distance``.

    Subsets are smaller than in the KID over all classes, because a class may have few images. The
    mean has no bias for any subset size. 100 subsets of 100 images cover about as many pairs as a
    class of 1,000 images has.
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
    """Return the diversity of each class.

    Diversity is the mean distance between two generated images, divided by the mean distance
    between two real images. About 1 is healthy. 0 means that all images of the class are equal,
    which is a valid result here, not an error. Values above 1 are possible but not better, because
    noise can vary more than real images. The numbers of real and generated images may differ.
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
    """Return the names of the classes with a diversity below the threshold.

    A generator that repeats k different images has a diversity of about 1 - 1/k. The threshold 0.5
    finds generators that make only one image, or two images with unequal frequencies.
    """
    pairs = zip(names, diversities, strict=True)
    return [name for name, diversity in pairs if diversity < threshold]


def mean_distance(features: Tensor) -> float:
    """Return the mean Euclidean distance between two rows; 0 if all are equal up to rounding."""
    spread = (features.amax(0) - features.amin(0)).max()
    if float(spread) <= EQUAL * float(features.abs().max()):
        return 0.0
    sums = [distances.sqrt_().sum() for _, distances in blocks_of_pairs(features, own=0.0)]
    return float(torch.stack(sums).sum()) / (len(features) * (len(features) - 1))


def _by_class(
    real: Tensor, real_labels: Tensor, fake: Tensor, fake_labels: Tensor, num_classes: int
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield each class's label, real rows and generated rows, on the device of ``real``."""
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
