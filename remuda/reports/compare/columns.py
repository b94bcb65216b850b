"""Make one column per score and protocol, with a summary for each group of runs."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from remuda.record.scores import Score
from remuda.reports.compare.groups import Group
from remuda.reports.compare.runs import Run
from remuda.reports.compare.significance import MIN_REPEATS, mann_whitney
from remuda.scores.directions import LOWER, direction

# Values share a column only if these fields are equal too, because the name of a score does not
# describe its protocol completely.
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
    """The score of a group: the mean over its seeds, or the value of its only run."""

    value: float
    spread: float | None
    over_seeds: bool  # false: the spread is over splits or subsets of one run's images
    values: list[float]
    round: int  # the last one of the group
    rounds: list[int]  # the round of each value; different only if runs ended early
    lacking: list[Path]  # runs of the group that have no such score in this round
    precisions: set[str]
    p: float | None = None  # p-value of the test against the first group


@dataclass(frozen=True, kw_only=True)
class Column:
    """One score of all groups."""

    name: str  # states the protocol
    label: str  # the name, with the protocol if several columns have this name
    cells: list[Summary | None]  # one per group
    floors: list[list[float]]  # for each group, its runs' scores of real images
    protocol: Protocol  # the values of PROTOCOL
    better: str = ""  # of a user's score: "lower" or "higher"

    @property
    def direction(self) -> str:
        """The better direction, ↓ or ↑; "" if neither is better."""
        return direction(self.name, self.better)

    def history(self, run: Run) -> list[Score]:
        """Return all values of a run that belong to this column, in the order of their rounds."""
        return [
            score
            for score in run.history
            if score.name == self.name and _protocol(score) == self.protocol
        ]

    @property
    def all_floors(self) -> list[float]:
        """The scores of real images in the runs of all groups."""
        return [floor for floors in self.floors for floor in floors]

    @property
    def best(self) -> float | None:
        """The best of at least two values; None if no value is better than another."""
        values = [cell.value for cell in self.cells if cell is not None]
        if len(values) < 2 or not self.direction:
            return None
        return min(values) if self.direction == LOWER else max(values)


def columns(groups: list[Group]) -> list[Column]:
    """Return a column for every score of every group, in the order of the runs' scores."""
    found: dict[str, dict[Protocol, None]] = {}
    for run in (run for group in groups for run in group.runs):
        for score in run.scores.values():
            found.setdefault(score.name, {})[_protocol(score)] = None
    return [
        _column(name, protocol, _label(name, protocol, list(protocols)), groups)
        for name, protocols in found.items()
        for protocol in protocols
    ]


def _column(name: str, protocol: Protocol, label: str, groups: list[Group]) -> Column:
    cells = [_summary(group, name, protocol) for group in groups]
    first = cells[0]
    for i, cell in enumerate(cells[1:], start=1):
        if first and cell and min(len(first.values), len(cell.values)) >= MIN_REPEATS:
            cells[i] = replace(cell, p=mann_whitney(first.values, cell.values))
    floors: list[list[float]] = []
    for group, cell in zip(groups, cells, strict=True):
        found = [_last(run, name, protocol, cell.round) for run in group.runs] if cell else []
        floors.append([score.floor for score in found if score and score.floor is not None])
    scores = (
        score for group in groups for run in group.runs for _, score in _all(run, name, protocol)
    )
    better = next((score.better for score in scores if score.better), "")
    return Column(
        name=name, label=label, cells=cells, floors=floors, protocol=protocol, better=better
    )


def _summary(group: Group, name: str, protocol: Protocol) -> Summary | None:
    """Summarise the last round in which any run of the group has this score.

    Runs that ended early, for example after equal times, count with their own last scored rounds.
    """
    rounds = [t for run in group.runs for t, _ in _all(run, name, protocol)]
    if not rounds:
        return None
    last = max(rounds)
    found = [(run, _last(run, name, protocol, last)) for run in group.runs]
    scores = [score for _, score in found if score is not None]
    values = [score.value for score in scores]
    several = len(values) > 1
    return Summary(
        value=statistics.fmean(values),
        spread=statistics.stdev(values) if several else scores[0].spread,
        over_seeds=several,
        values=values,
        round=last,
        rounds=[score.round for score in scores],
        lacking=[run.folder for run, score in found if score is None],
        precisions={score.precision for score in scores},
    )


def _all(run: Run, name: str, protocol: Protocol) -> Iterator[tuple[int, Score]]:
    for (t, _), score in run.scores.items():
        if score.name == name and _protocol(score) == protocol:
            yield t, score


def _last(run: Run, name: str, protocol: Protocol, last: int) -> Score | None:
    """Return the score of the group's last round; of a run that ended early, of its own last."""
    if run.ending is not None:
        last = max((t for t, _ in _all(run, name, protocol)), default=last)
    score = run.scores.get((last, name))
    return score if score is not None and _protocol(score) == protocol else None


def _protocol(score: Score) -> Protocol:
    """Return the fields that must be equal; for classes, only their number must be equal."""
    num_classes = "" if score.classes is None else len(score.classes)
    values = {field: getattr(score, field) for field in PROTOCOL} | {"classes": num_classes}
    return tuple(values[field] for field in PROTOCOL)


def _label(name: str, protocol: Protocol, protocols: list[Protocol]) -> str:
    """Return the name; if several protocols share it, add the fields that differ."""
    marks = []
    for i, field in enumerate(PROTOCOL):
        if len({other[i] for other in protocols}) > 1:
            text = str(protocol[i])[:8] if field.endswith("_digest") else str(protocol[i])
            marks.append(f"{field.removesuffix('_digest')} {text or '-'}")
    return f"{name} [{', '.join(marks)}]" if marks else name
