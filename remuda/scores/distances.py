"""Squared Euclidean distances between all rows of two matrices, a block of rows at a time."""

from collections.abc import Iterator

import torch
from torch import Tensor

_BLOCK = 1 << 24  # distances that are held at once

# |x|^2 + |y|^2 - 2 x.y errs by the last digits of its terms, so that distances that should tie do not. Squared
# distances are taken to be equal within this part of the mean |x|^2, where float32 features have no digits left.
TIE = 1e-12


def blocks(rows: Tensor, columns: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """For each block of rows, its place and its squared distances (block, len(columns)), float64, at least 0."""
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
    """The same between the rows themselves; own stands for the distance of a row to itself."""
    for place, distances in blocks(rows, rows):
        distances.diagonal(place.start).fill_(own)
        yield place, distances


def slack(features: Tensor) -> float:
    """By how much squared distances between features of this size may differ and still tie."""
    centred = features.double() - features.mean(0, dtype=torch.float64)
    return TIE * float(centred.square().sum(1).mean())
