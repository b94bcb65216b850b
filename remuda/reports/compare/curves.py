"""Condense rounds.jsonl for a comparison: totals, and curves of the means over the members."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from remuda.record.files import Line
from remuda.record.rounds import is_metric, parse_round
from remuda.reports.page import curves as page
from remuda.reports.tail import Tail

AXES = ("rounds", "seconds", "images", "bytes")
KEPT = ("round", "seconds", "images", "images_per_second", "bytes", "memory")

Numbers = list[float | None]


class _Mean:
    """The only column of a curve."""

    total = 1

    def places(self, t: int, count: int) -> Sequence[int]:
        return (0,)


class Curves:
    """The rounds of a run up to ``last_round``. ``update`` reads only new lines."""

    def __init__(self, folder: Path, last_round: int | None = None):
        self.last_round = last_round
        self._points = page.Curves()
        self._tail = Tail(folder / "rounds.jsonl", parse_round)
        self._restart()

    def _restart(self) -> None:
        self._points.restart()
        self.num_rounds = 0
        self.num_images = 0
        self.num_bytes: int | None = None  # None unless every round reports them
        self.width = 0  # the largest number of members in the last round

    def update(self) -> None:
        """Read the lines that were added since the last call."""
        for line in self._tail.read(self._restart):
            if self.last_round is None or line["round"] <= self.last_round:
                self._add(line)

    def _add(self, line: Line) -> None:
        if self._points.length == 0:
            self.num_bytes = line.get("bytes")
        elif self.num_bytes is not None:
            self.num_bytes = self.num_bytes + line["bytes"] if "bytes" in line else None
        self.num_rounds, self.num_images = line["round"], line["images"]
        metrics = {name: value for name, value in line.items() if is_metric(value)}
        self.width = max(map(len, metrics.values()), default=0)
        means = {name: [mean(values)] for name, values in metrics.items()}
        kept = {name: line[name] for name in KEPT if name in line}
        self._points.add({**means, **kept}, _Mean())

    @property
    def seconds(self) -> float:
        """The time of all rounds."""
        return self._points.seconds

    @property
    def stride(self) -> int:
        """The number of rounds in a point."""
        return self._points.stride

    def axes(self) -> dict[str, Numbers]:
        """Return the totals of all points by axis; without bytes if not every round has them."""
        names = AXES if self.num_bytes is not None else AXES[:-1]
        return {name: self._points.axis(name) for name in names}

    def metrics(self) -> dict[str, Any]:
        """Return each metric as numbers, or as base64 of little-endian float32."""
        found: dict[str, Any] = dict(self._points.payload(0)["metrics"])
        plain = {"images_per_second": "speed", "memory": "memory"}
        for name, axis in plain.items():
            values = self._points.axis(axis)
            if any(value is not None for value in values):
                found[name] = values
        return found


def mean(values: Sequence[float]) -> float:
    """Return the mean of the finite values; NaN if none is finite."""
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else math.nan


def interpolate(axes: dict[str, Numbers], t: int) -> dict[str, float | None]:
    """Return the totals after round t, between those of the points around it."""
    rounds = [x or 0.0 for x in axes["rounds"]]
    place = min(bisect_left(rounds, t), len(rounds) - 1)
    found: dict[str, float | None] = {"rounds": t}
    for name, values in axes.items():
        if name == "rounds":
            continue
        if not rounds or values[place] is None:
            found[name] = None
            continue
        x0, y0 = (rounds[place - 1], values[place - 1] or 0.0) if place > 0 else (0.0, 0.0)
        x1, y1 = rounds[place], values[place] or 0.0
        part = (t - x0) / (x1 - x0) if x1 > x0 else 1.0
        found[name] = y0 + part * (y1 - y0)
    return found
