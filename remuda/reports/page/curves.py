"""Thin out a metric's values while the rounds are read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

MAX_POINTS = 2_000  # more than the pixels across most screens
MAX_VALUES = 400_000  # points times members; limits memory and the size of the page
MIN_POINTS = 200  # for a long run, whatever its number of members


@dataclass
class Curve:
    """The points of a curve; each point averages every member over ``stride`` rounds."""

    stride: int = 1
    rounds: list[float] = field(default_factory=list)
    # One row per point with one value per member. After a failure, rows may be shorter.
    rows: list[list[float]] = field(default_factory=list)
    _rounds_open: list[int] = field(default_factory=list, repr=False)
    _sums_open: list[float] = field(default_factory=list, repr=False)

    @classmethod
    def for_rounds(cls, num_rounds: int, num_members: int) -> Self:
        """Return an empty curve with a stride that suits a run of this size."""
        points = min(MAX_POINTS, max(MIN_POINTS, MAX_VALUES // num_members))
        return cls(stride=max(1, math.ceil(num_rounds / points)))

    def add(self, t: int, values: Sequence[float]) -> None:
        """Add the values of round t, one per member."""
        if self._rounds_open and len(values) != len(self._sums_open):
            self.close()  # never average over rounds with different numbers of members
        if self._rounds_open:
            pairs = zip(self._sums_open, values, strict=True)
            self._sums_open = [total + value for total, value in pairs]
        else:
            self._sums_open = list(values)
        self._rounds_open.append(t)
        if len(self._rounds_open) == self.stride:
            self.close()

    def close(self) -> None:
        """Add a point for the rounds since the last point."""
        if count := len(self._rounds_open):
            self.rounds.append(sum(self._rounds_open) / count)
            self.rows.append([total / count for total in self._sums_open])
            self._rounds_open, self._sums_open = [], []

    @property
    def width(self) -> int:
        """The largest number of members in any round."""
        return max(map(len, self.rows), default=0)

    @property
    def is_ragged(self) -> bool:
        """Whether the number of members changed, so that column i is not always the same member."""
        return any(len(row) != self.width for row in self.rows)

    def member(self, i: int) -> list[float]:
        """Return the values of member i, point by point."""
        return [row[i] for row in self.rows]

    def means(self) -> list[float]:
        """Return the means over the members, point by point."""
        return [mean(row) for row in self.rows]

    def quantiles(self, q: float) -> list[float]:
        """Return a quantile over the members, point by point."""
        return [quantile(row, q) for row in self.rows]


def mean(values: Sequence[float]) -> float:
    """Return the mean of the finite values. If none is finite, return NaN, which plots omit."""
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else math.nan


def quantile(values: Sequence[float], q: float) -> float:
    """Return the finite value nearest to the quantile 0 <= q <= 1; NaN if none is finite."""
    finite = sorted(value for value in values if math.isfinite(value))
    return finite[round(q * (len(finite) - 1))] if finite else math.nan
