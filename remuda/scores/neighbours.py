"""Find the nearest training images of each sample, and measure copying by the generator."""

from typing import NamedTuple

import torch
from torch import Tensor

from remuda.data.images import to_unit
from remuda.errors import UserError
from remuda.scores.checks import check_features, check_rows
from remuda.scores.distances import blocks

_PART = 65_536  # training images compared at once
_CHUNK = 256  # queries compared with their neighbours by coordinates at once


class Neighbours(NamedTuple):
    """The nearest rows of the training set for each of n queries."""

    distances: Tensor  # (n, k) float64, ascending
    indices: Tensor  # (n, k) rows of the training set


class Copying(NamedTuple):
    """Measures of how close samples are to the training set."""

    fraction: float  # fraction of samples closer to the training set than the threshold
    threshold: float  # quantile of the held-out images' distances
    median_ratio: float  # median distance, samples / held-out images; near 0 for copies
    is_copy: Tensor  # (n,): whether each sample is closer than the threshold


def pixels(images: Tensor) -> Tensor:
    """Flatten images (n, C, H, W) to float32 rows in [-1, 1], to find neighbours by pixels."""
    return to_unit(images).flatten(1)


def nearest(queries: Tensor, training: Tensor, num_neighbours: int = 1) -> Neighbours:
    """Return the rows of training (m, d) nearest to each row of queries (n, d).

    Distances are Euclidean, and exactly 0 for exact copies. Results are on the device of
    ``training``.
    """
    if num_neighbours < 1:
        raise UserError(f"num_neighbours must be at least 1, not {num_neighbours}")
    check_rows(queries, "samples", at_least=1)
    check_rows(training, "training images", at_least=num_neighbours)
    if queries.shape[1] != training.shape[1]:
        raise UserError(
            f"samples have {queries.shape[1]} features each, but training images have "
            f"{training.shape[1]}: use the same feature extractor for both, or pixels for both"
        )
    queries = queries.to(training.device)
    found = [
        distances.topk(num_neighbours, largest=False).indices.sort(1).values  # ties stay in order
        for _, distances in blocks(queries, training)
    ]
    return _measured(queries, training, torch.cat(found))


def copying(fake: Tensor, held_out: Tensor, training: Tensor, quantile: float = 0.01) -> Copying:
    """Measure how many generated images are closer to a training image than new real images are.

    The threshold is a quantile of the distances from held-out real images (the test split) to their
    nearest training images. A generator that has learnt the distribution puts about that
    fraction of its samples below the threshold, so a much larger fraction means copies. The samples
    of a poor generator are far from all images and give a fraction of 0: this measures copying, not
    quality. The held-out images must not be duplicates of training images. Training images may also
    be bytes (m, C, H, W), which are compared by pixels, a part at a time.
    """
    if not 0 < quantile < 1:
        raise UserError(f"quantile must lie between 0 and 1, not {quantile}: use 0.01")
    check_features(fake, "generated images")
    check_features(held_out, "held-out images", at_least=round(1 / quantile))
    check_features(_rows(training[:_PART]), "training images")
    expected = _distances(held_out, training)
    threshold = expected.quantile(quantile)
    if float(threshold) == 0:
        duplicates = float((expected == 0).double().mean())
        raise UserError(
            f"{duplicates:.1%} of the held-out images are also in the training set, so "
            "copies cannot be distinguished from new images: use other held-out images, or raise "
            "quantile"
        )
    distances = _distances(fake, training)
    is_copy = distances <= threshold
    return Copying(
        fraction=float(is_copy.double().mean()),
        threshold=float(threshold),
        median_ratio=float(distances.quantile(0.5) / expected.quantile(0.5)),
        is_copy=is_copy,
    )


def _distances(queries: Tensor, training: Tensor) -> Tensor:
    """Return the distance of each query to the nearest training image."""
    parts = [nearest(queries, _rows(part)).distances[:, 0] for part in training.split(_PART)]
    return torch.stack(parts).amin(0)


def _rows(training: Tensor) -> Tensor:
    return pixels(training) if training.dtype == torch.uint8 else training


def _measured(queries: Tensor, training: Tensor, indices: Tensor) -> Neighbours:
    """Measure distances from coordinate differences, which are exactly 0 for copies."""
    measured = []
    for rows, chosen in zip(queries.split(_CHUNK), indices.split(_CHUNK), strict=True):
        measured.append((training[chosen].double() - rows.double()[:, None]).square().sum(2).sqrt())
    distances, order = torch.cat(measured).sort(stable=True, dim=1)
    return Neighbours(distances, indices.gather(1, order))
