"""Compute squared distances between all rows of two matrices, one block of rows at a time."""

from collections.abc import Iterator

import torch
from torch import Tensor

_BLOCK = 1 << 24  # distances in memory at once

# |x|^2 + |y|^2 - 2 x.y has rounding errors as large as the last digits of its terms, so distances
# that should be equal differ slightly. Squared distances count as equal if they differ by less than
# this fraction of the mean |x|^2, which is below the precision of float32 features.
TIE = 1e-12


def blocks(rows: Tensor, columns: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield the slice of each block of rows, and its squared distances to all columns.

    Distances are Euclidean, with shape (block, len(columns)), in float64, and at least 0.
    """
    centre = columns.mean(0, dtype=torch.float64)  # smaller terms reduce cancellation
    y = columns.double() - centre
    squares = y.square().sum(1)
    num_rows = max(1, _BLOCK // len(columns))
    for start in range(0, len(rows), num_rows):
        place = slice(start, min(start + num_rows, len(rows)))
        x = rows[place].double() - centre
        distances = torch.addmm(squares[None], x, y.T, alpha=-2.0)
        yield place, distances.add_(x.square().sum(1)[:, None]).clamp_(min=0)


def blocks_of_pairs(rows: Tensor, own: float) -> Iterator[tuple[slice, Tensor]]:
    """Yield blocks of distances between all rows; ``own`` replaces a row's distance to itself."""
    for place, distances in blocks(rows, rows):
        distances.diagonal(place.start).fill_(own)
        yield place, distances


def slack(features: Tensor) -> float:
    """Return the largest difference at which squared distances of these features count as equal."""
    centred = features.double() - features.mean(0, dtype=torch.float64)
    return TIE * float(centred.square().sum(1).mean())
