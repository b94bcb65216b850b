"""Read a run folder and condense it for the page."""

from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from remuda.record.facts import DataFacts
from remuda.record.files import Line
from remuda.record.reader import Reader, round_of
from remuda.record.rounds import is_metric
from remuda.record.scores import Score
from remuda.reports.page.curves import Curve
from remuda.strategies import MEMBER_NOUNS


@dataclass
class Rounds:
    """The content of rounds.jsonl, condensed line by line because the file may be large."""

    last: Line = field(default_factory=dict)  # the newest line; empty before the first round
    curves: dict[str, Curve] = field(default_factory=dict)  # one per metric
    seconds: float = 0.0
    speeds: list[float] = field(default_factory=list)  # images per second
    routines: dict[str, float] = field(default_factory=dict)  # total seconds of each routine
    num_timed: int = 0  # rounds that report routines
    seconds_timed: float = 0.0  # duration of these rounds, including the time between routines

    def add(self, line: Line, num_lines: int) -> None:
        """Add the line of one round; the file has ``num_lines`` lines."""
        self.seconds += line["seconds"]
        self.speeds.append(line["images_per_second"])
        for name, value in line.items():
            if is_metric(value):
                curve = self.curves.setdefault(name, Curve.for_rounds(num_lines, len(value)))
                curve.add(line["round"], value)
        if routines := line.get("routines"):
            for name, seconds in routines.items():
                self.routines[name] = self.routines.get(name, 0.0) + seconds
            self.num_timed += 1
            self.seconds_timed += line["seconds"]
        self.last = line

    def close(self) -> None:
        """Finish the curves."""
        for curve in self.curves.values():
            curve.close()


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that the page shows."""

    reader: Reader
    settings: dict[str, Any]
    data: DataFacts | None  # None if data.json is missing
    environments: list[dict[str, Any]]  # one entry for every start and resume
    rounds: Rounds
    grids: list[tuple[int, Path]]  # round and picture, oldest first
    scores: list[Score]  # one for each round and name, in the order of rounds

    @property
    def folder(self) -> Path:
        """The run folder as the user typed it; the commands on the page use it."""
        return self.reader.folder

    @property
    def reached(self) -> int:
        """The last round that was trained."""
        return self.rounds.last.get("round", 0)

    @property
    def strategy(self) -> str:
        """The name of the strategy."""
        return self.setting("strategy", "name")

    @property
    def num_members(self) -> int:
        """The number of members; 0 if it is not known yet."""
        reported = max((curve.width for curve in self.rounds.curves.values()), default=0)
        suggested = len(self.classes) if self.is_by_class else 0
        return reported or self.setting("run", "members") or suggested

    @property
    def is_by_class(self) -> bool:
        """Whether member i learns class i."""
        return MEMBER_NOUNS.get(self.strategy, "member") == "class"

    @property
    def classes(self) -> list[str]:
        """The names of the classes; empty if data.json is missing."""
        return self.data.classes if self.data else []

    @property
    def is_points(self) -> bool:
        """Whether the data are points in the plane, which the page shows as scatter plots."""
        return self.data is not None and self.data.is_points

    def setting(self, section: str, key: str) -> Any:
        """Return a setting of config.toml."""
        return self.reader.setting(section, key)


def read(folder: Path) -> Run:
    """Read the folder of a run, which may still be training."""
    reader = Reader.open(folder)
    return Run(
        reader=reader,
        settings=reader.settings,
        data=reader.facts if reader.has_facts else None,
        environments=reader.environments(),
        rounds=read_rounds(reader),
        grids=[(round_of(path), path) for path in reader.sample_grids()],
        scores=reader.scores(),
    )


def read_rounds(reader: Reader) -> Rounds:
    """Condense rounds.jsonl."""
    rounds = Rounds()
    num_lines = reader.num_rounds()
    # If the run is still training, the file may have grown since its lines were counted.
    for line in islice(reader.iterate_rounds(), num_lines):
        rounds.add(line, num_lines)
    rounds.close()
    return rounds
