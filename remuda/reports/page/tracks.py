"""Thin out values while they arrive: every point averages the same number of rounds."""

import base64
import math
import operator
import sys
from array import array
from collections.abc import Sequence

NAN = math.nan


class Track:
    """The points of one quantity, with ``width`` values each, and the point that is still open.

    A point is the mean of the finite values of its rounds. It is NaN if there are none.
    """

    def __init__(self, width: int, num_points: int = 0, blank: float = NAN):
        self.width = width
        self.points = array("d", [blank]) * (width * num_points)
        self._clear()

    def _clear(self) -> None:
        self._sums: list[float] = []
        self._count = 0  # rounds in the open point
        self._missing: dict[int, int] = {}  # values that are not finite, by column

    def add(self, values: Sequence[float]) -> None:
        """Add the values of one round to the open point."""
        assert len(values) == self.width
        if not math.isfinite(sum(values)):
            for i, value in enumerate(values):
                if not math.isfinite(value):
                    self._missing[i] = self._missing.get(i, 0) + 1
            values = [value if math.isfinite(value) else 0.0 for value in values]
        self._sums = list(map(operator.add, self._sums, values)) if self._count else list(values)
        self._count += 1

    def open_point(self) -> list[float]:
        """Return the means over the rounds since the last point."""
        if not self._count:
            return [NAN] * self.width
        means = [total / self._count for total in self._sums]
        for i, missing in self._missing.items():
            left = self._count - missing
            means[i] = self._sums[i] / left if left else NAN
        return means

    def close(self) -> None:
        """Turn the open point into a point."""
        self.points.extend(self.open_point())
        self._clear()

    def halve(self) -> None:
        """Replace each two points by their mean. The number of points must be even."""
        step, old = self.width, self.points
        assert len(old) % (2 * step) == 0
        self.points = array("d")
        for start in range(0, len(old), 2 * step):
            middle = start + step
            pairs = zip(old[start:middle], old[middle : middle + step], strict=True)
            self.points.extend([_mean_of_two(a, b) for a, b in pairs])

    def widen(self, width: int) -> None:
        """Add columns, in which all earlier values are missing."""
        num_points, extra = len(self.points) // self.width, width - self.width
        wider = array("d")
        for i in range(num_points):
            wider.extend(self.points[i * self.width : (i + 1) * self.width])
            wider.extend([NAN] * extra)
        self.points = wider
        if self._count:
            self._missing |= dict.fromkeys(range(self.width, width), self._count)
            self._sums += [0.0] * extra
        self.width = width

    def values(self, start: int, with_open: bool) -> array:
        """Return the points from number ``start`` on, row by row; with the open one if asked."""
        found = self.points[start * self.width :]
        if with_open:
            found.extend(self.open_point())
        return found

    def encoded(self, start: int, with_open: bool) -> str:
        """Return the same values as base64 of little-endian 32-bit numbers."""
        numbers = array("f", map(_as_float32, self.values(start, with_open)))
        if sys.byteorder == "big":
            numbers.byteswap()
        return base64.b64encode(numbers.tobytes()).decode("ascii")


def _mean_of_two(a: float, b: float) -> float:
    if math.isnan(a):
        return b
    return a if math.isnan(b) else (a + b) / 2


def _as_float32(value: float) -> float:
    """Return the value, or NaN if it is too large for 32 bits."""
    return value if abs(value) < 3.4e38 else NAN
