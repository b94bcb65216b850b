"""The training images nearest to each sample: does the generator copy?"""

from typing import NamedTuple

import torch
from torch import Tensor

from remuda.data.images import to_unit
from remuda.errors import UserError
from remuda.scores.checks import check_features, check_rows
from remuda.scores.distances import blocks

_CHUNK = 256  # queries whose neighbours are compared coordinate by coordinate at once


class Neighbours(NamedTuple):
    distances: Tensor  # (n, k) float64, ascending
    indices: Tensor  # (n, k) rows of the training set


class Copying(NamedTuple):
    fraction: float  # of the samples that are nearer to the training set than the threshold
    threshold: float  # the distance that a given part of the held-out images falls below
    median_ratio: (
        float  # median distance of samples over that of held-out images; far below 1: copies
    )


def pixels(images: Tensor) -> Tensor:
    """Images (n, C, H, W) as rows of float32 in [-1, 1]: features, for neighbours in the space of pixels."""
    return to_unit(images).flatten(1)


def nearest(queries: Tensor, training: Tensor, num_neighbours: int = 1) -> Neighbours:
    """The num_neighbours rows of training (m, d) nearest to each row of queries (n, d), on the device of training.

    Distances are Euclidean, and those of exact copies are exactly 0.
    """
    if num_neighbours < 1:
        raise UserError(
            f"at least 1 neighbour can be looked for, not {num_neighbours}: raise num_neighbours"
        )
    check_rows(queries, "samples", at_least=1)
    check_rows(training, "training images", at_least=num_neighbours)
    if queries.shape[1] != training.shape[1]:
        raise UserError(
            f"samples have {queries.shape[1]} features each, but training images {training.shape[1]}: take both from "
            "the same network, or both as pixels"
        )
    queries = queries.to(training.device)
    found = [
        distances.topk(num_neighbours, largest=False).indices.sort(1).values  # ties stay in order
        for _, distances in blocks(queries, training)
    ]
    return _measured(queries, training, torch.cat(found))


def copying(fake: Tensor, held_out: Tensor, training: Tensor, quantile: float = 0.01) -> Copying:
    """How many generated images are nearer to a training image than new real images ever are.

    The distance to the nearest training image is measured for real images that were not trained on (the test split);
    the threshold is the given quantile of these distances. A generator that has learnt the distribution puts about
    that quantile of its samples below the threshold, so a fraction far above it means copies. A blurred or
    poor generator stays far from everything and gets a fraction of 0: this is a test for copying, not of quality.
    The held-out images must not be duplicates of training images.
    """
    if not 0 < quantile < 1:
        raise UserError(
            f"a quantile lies between 0 and 1, but is {quantile}: the customary one is 0.01"
        )
    check_features(fake, "generated images")
    check_features(held_out, "held-out images", at_least=round(1 / quantile))
    check_features(training, "training images")
    expected = nearest(held_out, training).distances[:, 0]
    threshold = expected.quantile(quantile)
    if float(threshold) == 0:
        raise UserError(
            f"{float((expected == 0).double().mean()):.1%} of the held-out images are in the training set themselves, "
            "so copies cannot be told from new images: hold out others, or raise quantile"
        )
    distances = nearest(fake, training).distances[:, 0]
    return Copying(
        fraction=float((distances <= threshold).double().mean()),
        threshold=float(threshold),
        median_ratio=float(distances.quantile(0.5) / expected.quantile(0.5)),
    )


def _measured(queries: Tensor, training: Tensor, indices: Tensor) -> Neighbours:
    """Their distances, from the differences themselves: the formula that found them does not give copies a 0."""
    measured = []
    for rows, chosen in zip(queries.split(_CHUNK), indices.split(_CHUNK), strict=True):
        measured.append((training[chosen].double() - rows.double()[:, None]).square().sum(2).sqrt())
    distances, order = torch.cat(measured).sort(stable=True, dim=1)
    return Neighbours(distances, indices.gather(1, order))
