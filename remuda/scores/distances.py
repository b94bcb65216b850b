"""Compute squared distances between all rows of two matrices, one block of rows at a time."""

from collections.abc import Iterator

import torch
from torch import Tensor

_BLOCK = 1 << 24  # distances that are held at once

# |x|^2 + |y|^2 - 2 x.y has rounding errors of the size of its terms' last digits, so distances that
# should tie do not. Squared distances count as equal within this part of the mean |x|^2, where
# float32 features have no digits left.
TIE = 1e-12


def blocks(rows: Tensor, columns: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield for each block of rows its slice and its squared distances to all columns.

    Distances are Euclidean, (block, len(columns)), float64, at least 0.
    """
    centre = columns.mean(0, dtype=torch.float64)  # smaller terms, less cancellation
    y = columns.double() - centre
    squares = y.square().sum(1)
    num_rows = max(1, _BLOCK // len(columns))
    for start in range(0, len(rows), num_rows):
        place = slice(start, min(start + num_rows, len(rows)))
        x = rows[place].double() - centre
        distances = torch.addmm(squares[None], x, y.T, alpha=-2.0)
        yield place, distances.add_(x.square().sum(1)[:, None]).clamp_(min=0)


def blocks_of_pairs(rows: Tensor, own: float) -> Iterator[tuple[slice, Tensor]]:
    """Yield the same for all pairs of rows; ``own`` replaces a row's distance to itself."""
    for place, distances in blocks(rows, rows):
        distances.diagonal(place.start).fill_(own)
        yield place, distances


def slack(features: Tensor) -> float:
    """Return how much squared distances between these features may differ and still tie."""
    centred = features.double() - features.mean(0, dtype=torch.float64)
    return TIE * float(centred.square().sum(1).mean())
