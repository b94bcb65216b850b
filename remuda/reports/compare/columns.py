"""One column for each score: a summary per group, never of values that were made in different ways."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from remuda.reports.compare.gathering import Run
from remuda.reports.compare.groups import Group
from remuda.reports.compare.significance import MIN_REPEATS, mann_whitney
from remuda.scores.base import Value

LOWER, HIGHER = "↓", "↑"  # which is the better
DIRECTIONS = {
    "fid": LOWER,
    "kid": LOWER,
    "tvd": LOWER,
    "is": HIGHER,
    "precision": HIGHER,
    "recall": HIGHER,
    "density": HIGHER,
    "coverage": HIGHER,
    "modes": HIGHER,
    "high-quality": HIGHER,
    "mode-tvd": LOWER,
    "class-fid": LOWER,
    "class-kid": LOWER,
    "diversity": HIGHER,
    "copying": LOWER,
}
# Values of one name are put together only if they agree in these; the name is a promise, this is the proof.
PROTOCOL = (
    "num_samples",
    "reference",
    "num_reference",
    "reference_digest",
    "network",
    "network_digest",
    "classes",
)

Protocol = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A group's score: the mean over its seeds, or the one value that there is."""

    value: float
    spread: float | None
    over_seeds: (
        bool  # else the spread is the protocol's own, over splits or subsets of one run's images
    )
    values: list[float]
    round: int
    lacking: list[Path]  # runs of the group without this score in this round
    precisions: set[str]
    p: float | None = None  # against the first group


@dataclass(frozen=True, kw_only=True)
class Column:
    """A score as all groups have it."""

    name: str  # of the protocol
    label: str  # the name, and what tells it from columns of the same name
    cells: list[Summary | None]  # one per group
    floors: list[list[float]]  # of real images, as the runs of each group report it

    @property
    def direction(self) -> str:
        """↓ or ↑, or nothing where neither is the better."""
        kind = self.name.split("_")[0]
        return HIGHER if kind.endswith("-score") else DIRECTIONS.get(kind, "")

    @property
    def all_floors(self) -> list[float]:
        return [floor for of_group in self.floors for floor in of_group]

    @property
    def best(self) -> float | None:
        """The best of at least two values; None where that cannot be said."""
        values = [cell.value for cell in self.cells if cell is not None]
        if len(values) < 2 or not self.direction:
            return None
        return min(values) if self.direction == LOWER else max(values)


def columns(groups: list[Group]) -> list[Column]:
    """All scores of all groups, in the order in which they are found."""
    found: dict[str, dict[Protocol, None]] = {}
    for run in (run for one in groups for run in one.runs):
        for value in run.scores.values():
            found.setdefault(value.name, {})[_protocol(value)] = None
    return [
        _column(name, protocol, _label(name, protocol, list(protocols)), groups)
        for name, protocols in found.items()
        for protocol in protocols
    ]


def _column(name: str, protocol: Protocol, label: str, groups: list[Group]) -> Column:
    cells = [_summary(one, name, protocol) for one in groups]
    first = cells[0]
    for i, cell in enumerate(cells[1:], start=1):
        if first and cell and min(len(first.values), len(cell.values)) >= MIN_REPEATS:
            cells[i] = replace(cell, p=mann_whitney(first.values, cell.values))
    floors: list[list[float]] = []
    for one, cell in zip(groups, cells, strict=True):
        values = [_find(run, name, protocol, cell.round) for run in one.runs] if cell else []
        floors.append(
            [value.floor for value in values if value is not None and value.floor is not None]
        )
    return Column(name=name, label=label, cells=cells, floors=floors)


def _summary(group: Group, name: str, protocol: Protocol) -> Summary | None:
    """In the last round in which any of the group's runs has this score: rounds are not mixed."""
    rounds = [t for run in group.runs for t, _ in _all(run, name, protocol)]
    if not rounds:
        return None
    last = max(rounds)
    found = [(run, _find(run, name, protocol, last)) for run in group.runs]
    values = [value for _, value in found if value is not None]
    numbers = [value.value for value in values]
    several = len(numbers) > 1
    return Summary(
        value=statistics.fmean(numbers),
        spread=statistics.stdev(numbers) if several else values[0].spread,
        over_seeds=several,
        values=numbers,
        round=last,
        lacking=[run.folder for run, value in found if value is None],
        precisions={value.precision for value in values},
    )


def _all(run: Run, name: str, protocol: Protocol) -> Iterator[tuple[int, Value]]:
    for (t, _), value in run.scores.items():
        if value.name == name and _protocol(value) == protocol:
            yield t, value


def _find(run: Run, name: str, protocol: Protocol, t: int) -> Value | None:
    value = run.scores.get((t, name))
    return value if value is not None and _protocol(value) == protocol else None


def _protocol(value: Value) -> Protocol:
    fields = (getattr(value, field) for field in PROTOCOL)
    return tuple(
        len(field) if isinstance(field, list) else "" if field is None else field
        for field in fields
    )


def _label(name: str, protocol: Protocol, protocols: list[Protocol]) -> str:
    """The name alone, unless there are several protocols of that name: then what this one has of its own."""
    marks = []
    for i, field in enumerate(PROTOCOL):
        if len({other[i] for other in protocols}) > 1:
            text = str(protocol[i])[:8] if field.endswith("_digest") else str(protocol[i])
            marks.append(f"{field.removesuffix('_digest')} {text or '-'}")
    return f"{name} [{', '.join(marks)}]" if marks else name
