"""Condense rounds.jsonl into curves, line by line, because the file may be large."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard

from remuda.record.files import Line, is_number
from remuda.reports.page.tracks import NAN, Track

MAX_POINTS = 2_000  # more than the pixels across most screens
MAX_VALUES = 700_000  # over all metrics and points; limits memory and the size of the page
MIN_POINTS = 32  # of a long run, whatever its number of members
AXES = ("rounds", "seconds", "images", "bytes", "speed", "memory")
WEIGHTS = "mixture_weights"

Row = list[float]


class Members(Protocol):
    """Know which member each value of a round belongs to."""

    total: int  # members of the run, including lost ones; their ids are 0 to total - 1

    def places(self, t: int, count: int) -> Sequence[int] | None:
        """Return the ids of the ``count`` members of round t; None if they are not known."""
        ...


class Curves:
    """The curves of all metrics over common points; each point averages ``stride`` rounds.

    If the points become too many, the stride doubles. ``generation`` names the meaning of points
    and columns: while it stays the same, points are only added.
    """

    def __init__(self, name: str = ""):
        self.name = name  # the start of all generations
        self._restarts = itertools.count()
        self.restart()

    def restart(self) -> None:
        """Forget all rounds."""
        self.start = next(self._restarts)
        self.stride, self.num_points, self.num_open, self.num_columns = 1, 0, 0, 0
        self.axes = {axis: Track(1) for axis in AXES}
        self.metrics: dict[str, Track] = {}
        self.by_member: list[str] = []  # metrics with one value per member
        self.traffic: dict[str, Track] = {}
        self.weights: Track | None = None
        self.num_slots = 0  # mixture weights of a cell
        self.seconds = self.bytes = 0.0  # sums over all rounds
        self.unknown = 0  # the first round whose members are not known; 0 if all are

    @property
    def generation(self) -> str:
        """A name that changes if earlier points change."""
        widths = "-".join(str(track.width) for track in self.metrics.values())
        slots = self.num_slots if self.weights else 0
        shape = f"{len(self.traffic)}.{slots}.{widths}"
        return f"{self.name}{self.start}.{self.stride}.{self.num_columns}.{shape}"

    def add(self, line: Line, members: Members) -> None:
        """Add the line of one round."""
        metrics = {name: value for name, value in line.items() if is_row(value)}
        num_members = max(map(len, metrics.values()), default=0)
        places = members.places(line["round"], num_members) if num_members else ()
        if places is None and not self.unknown:
            self.unknown = line["round"]
        self._widen(members.total)
        for name, values in metrics.items():
            self._add_metric(name, values, num_members, places)
        self._add_axes(line)
        self._add_traffic(line)
        self._add_weights(line.get(WEIGHTS), places)
        self.num_open += 1
        if self.num_open == self.stride:
            self._close()

    def _widen(self, total: int) -> None:
        """Make room for members that joined."""
        if total > self.num_columns:
            for name in self.by_member:
                self.metrics[name].widen(total)
            if self.weights is not None:
                self.weights.widen(total * self.num_slots)
            self.num_columns = total

    def _add_metric(
        self, name: str, values: Row, num_members: int, places: Sequence[int] | None
    ) -> None:
        if name not in self.metrics:
            is_by_member = len(values) == num_members
            width = self.num_columns if is_by_member else len(values)
            self.metrics[name] = Track(width, self.num_points)
            if is_by_member:
                self.by_member.append(name)
        track = self.metrics[name]
        if name in self.by_member:
            if places is not None and len(values) == len(places):
                track.add(placed(values, places, track.width))
        else:
            track.add((values + [NAN] * track.width)[: track.width])

    def _add_axes(self, line: Line) -> None:
        self.seconds += line["seconds"]
        self.bytes += line.get("bytes", 0)
        memory: Any = line.get("memory")
        row = (
            line["round"],
            self.seconds,
            line["images"],
            self.bytes,
            line["images_per_second"],
            memory if is_number(memory) else NAN,
        )
        for axis, value in zip(AXES, row, strict=True):
            self.axes[axis].add([value])

    def _add_traffic(self, line: Line) -> None:
        traffic = line.get("traffic")
        traffic = traffic if isinstance(traffic, dict) else {}
        for name in traffic.keys() - self.traffic.keys():
            track = self.traffic[name] = Track(1, self.num_points, blank=0.0)
            for _ in range(self.num_open):
                track.add([0.0])
        for name, track in self.traffic.items():
            value: Any = traffic.get(name)  # a direction without bytes is not recorded
            track.add([float(value) if is_number(value) else 0.0])

    def _add_weights(self, rows: Any, places: Sequence[int] | None) -> None:
        """Add the mixture weights of all cells, each with the same number of slots."""
        if not (isinstance(rows, list) and rows and all(map(is_row, rows))):
            return
        if places is None or len(places) != len(rows):
            return
        if self.weights is None:
            self.num_slots = max(map(len, rows))
            self.weights = Track(self.num_columns * self.num_slots, self.num_points)
        flat = [NAN] * self.weights.width
        for place, row in zip(places, rows, strict=True):
            start, known = place * self.num_slots, row[: self.num_slots]
            flat[start : start + len(known)] = known
        self.weights.add(flat)

    # Thinning

    def _tracks(self) -> list[Track]:
        weights = [self.weights] if self.weights else []
        return [*self.axes.values(), *self.metrics.values(), *self.traffic.values(), *weights]

    @property
    def max_points(self) -> int:
        """The number of points at which the stride doubles."""
        values = sum(track.width for track in self._tracks()) - len(AXES)
        return min(MAX_POINTS, max(MIN_POINTS, MAX_VALUES // max(1, values)))

    def _close(self) -> None:
        for track in self._tracks():
            track.close()
        self.num_points += 1
        self.num_open = 0
        while self.num_points > self.max_points and self.num_points % 2 == 0:
            for track in self._tracks():
                track.halve()
            self.num_points //= 2
            self.stride *= 2

    # Output

    @property
    def length(self) -> int:
        """The number of points, including the open one."""
        return self.num_points + (self.num_open > 0)

    def axis(self, name: str, start: int = 0) -> list[float | None]:
        """Return the values of an axis, such as ``rounds``, from a point on."""
        return _listed(self.axes[name], start, self.num_open > 0)

    def payload(self, start: int) -> dict[str, Any]:
        """Return the curves for the page, from a point on."""
        with_open = self.num_open > 0
        return {
            "generation": self.generation,
            "from": start,
            "stride": self.stride,
            **{axis: self.axis(axis, start) for axis in AXES},
            "ids": list(range(self.num_columns)),
            "metrics": {
                name: track.encoded(start, with_open) for name, track in self.metrics.items()
            },
        }

    def directions(self, start: int) -> dict[str, list[float | None]]:
        """Return the mean bytes per round of each direction, from a point on."""
        with_open = self.num_open > 0
        return {name: _listed(track, start, with_open) for name, track in self.traffic.items()}


def _listed(track: Track, start: int, with_open: bool) -> list[float | None]:
    """Return numbers for JSON, with nine digits."""
    numbers = track.values(start, with_open)
    return [_short(number) if math.isfinite(number) else None for number in numbers]


def _short(number: float) -> float:
    rounded = float(f"{number:.9g}")
    return int(rounded) if rounded.is_integer() else rounded


def placed(values: Row, places: Sequence[int], width: int) -> Row:
    """Return a row in which the values stand at their places; the others are NaN."""
    if len(values) == width:
        return values
    row = [NAN] * width
    for place, value in zip(places, values, strict=True):
        row[place] = value
    return row


def is_row(value: Any) -> TypeGuard[Row]:
    """Return whether a value is a list of numbers."""
    return isinstance(value, list) and bool(value) and set(map(type, value)) <= {int, float}
