"""A metric over the rounds, thinned out while it is read; plain arithmetic."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

MAX_POINTS = 2_000  # more than a screen has pixels
MAX_VALUES = 400_000  # points times members: bounds memory and the page
MIN_POINTS = 200


@dataclass
class Curve:
    """Points of ``stride`` consecutive reports each: the mean round, and the mean value of every member."""

    stride: int = 1
    rounds: list[float] = field(default_factory=list)
    rows: list[list[float]] = field(
        default_factory=list
    )  # one value per member; lost members shorten later rows
    _rounds_open: list[int] = field(default_factory=list, repr=False)
    _sums_open: list[float] = field(default_factory=list, repr=False)

    @classmethod
    def for_rounds(cls, num_rounds: int, num_members: int) -> Self:
        points = min(MAX_POINTS, max(MIN_POINTS, MAX_VALUES // num_members))
        return cls(stride=max(1, math.ceil(num_rounds / points)))

    def add(self, t: int, values: Sequence[float]) -> None:
        if self._rounds_open and len(values) != len(self._sums_open):
            self.close()  # no mean over two sizes of the herd
        if self._rounds_open:
            self._sums_open = [
                total + value for total, value in zip(self._sums_open, values, strict=True)
            ]
        else:
            self._sums_open = list(values)
        self._rounds_open.append(t)
        if len(self._rounds_open) == self.stride:
            self.close()

    def close(self) -> None:
        """Make a point of what was added since the last one."""
        if count := len(self._rounds_open):
            self.rounds.append(sum(self._rounds_open) / count)
            self.rows.append([total / count for total in self._sums_open])
            self._rounds_open, self._sums_open = [], []

    @property
    def width(self) -> int:
        """The most members that ever reported."""
        return max(map(len, self.rows), default=0)

    @property
    def is_ragged(self) -> bool:
        """Whether the herd changed its size, so that column i is not one member throughout."""
        return any(len(row) != self.width for row in self.rows)

    def member(self, i: int) -> list[float]:
        return [row[i] for row in self.rows]

    def means(self) -> list[float]:
        return [mean(row) for row in self.rows]

    def quantiles(self, q: float) -> list[float]:
        """Over the members, point by point."""
        return [quantile(row, q) for row in self.rows]


def mean(values: Sequence[float]) -> float:
    """The mean of the finite values; nan, which plots leave out, if there is none."""
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else math.nan


def quantile(values: Sequence[float], q: float) -> float:
    """The finite value nearest to the quantile 0 <= q <= 1."""
    finite = sorted(value for value in values if math.isfinite(value))
    return finite[round(q * (len(finite) - 1))] if finite else math.nan
