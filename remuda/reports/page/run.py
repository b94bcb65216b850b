"""Read a run folder for the page, and read again only what changed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from remuda.errors import UserError
from remuda.record.endings import Ending, ending
from remuda.record.facts import DataFacts
from remuda.record.files import Line, damaged, is_whole
from remuda.record.reader import FAILURES, OLD_FAILURES, Reader, round_of
from remuda.record.scores import Score
from remuda.reports import status
from remuda.reports.page.rounds import Rounds
from remuda.reports.tail import stamp_of
from remuda.strategies import MEMBER_NOUNS

# What refresh looks at; the time of a folder changes when a file in it is added or removed.
WATCHED = (
    "config.toml",
    "data.json",
    "environment.json",
    "status.json",
    "trackers.json",
    "rounds.jsonl",
    "scores.jsonl",
    FAILURES,
    OLD_FAILURES,
    "samples",
    "samples/cells",
    "checkpoints",
)


class Run:
    """Everything that the page shows. ``name`` is the start of the curves' generations."""

    def __init__(self, folder: Path, name: str = ""):
        self.reader = Reader.open(folder)
        self._stamps: dict[str, Any] = {}
        self._changed: set[str] = set()
        self.settings: dict[str, Any] = {}
        self.data: DataFacts | None = None  # None if data.json is missing
        self.environments: list[dict[str, Any]] = []  # one entry for every start and resume
        self.written: dict[str, Any] | None = None  # the content of status.json
        self.failures: list[Line] = []
        self.scores: list[Score] = []  # one for each round and name, in the order of rounds
        self.best: Score | None = None  # of the best checkpoint, if the run keeps one
        self.has_checkpoint = False  # then its model can be loaded
        self.trackers: dict[str, Any] = {}
        self.grids: list[tuple[int, Path]] = []  # round and picture, oldest first
        self.cell_grids: list[tuple[int, Path]] = []
        self.settings = self.reader.settings
        self.rounds = Rounds(self.reader, list(self.section("run").get("lost", [])), name)
        self.refresh()

    def refresh(self) -> bool:
        """Read the files that changed; return whether any did."""
        folder, reader = self.folder, self.reader
        stamps = {name: stamp_of(folder / name) for name in WATCHED}
        self._changed = {name for name in WATCHED if stamps[name] != self._stamps.get(name, 0)}
        if not self._changed:
            return False
        if self._has("config.toml"):
            self.settings = reader.settings
            self.rounds.members.lost = frozenset(self.section("run").get("lost", []))
        if self._has("data.json"):
            self.data = reader.facts if reader.has_facts else None
        if self._has("environment.json"):
            self.environments = reader.environments()
        if self._has("status.json"):
            self.written = reader.status()
        if self._has(FAILURES, OLD_FAILURES):
            self.failures = reader.failures()
        if self._has("trackers.json"):
            self.trackers = reader.trackers()
        self._read_pictures()
        self.rounds.read()
        if self._has("scores.jsonl"):
            self.scores = reader.scores()
        if self._has("checkpoints") or not self.has_checkpoint:  # its files follow the folder
            self.has_checkpoint = bool(reader.checkpoints())
        if self._has("scores.jsonl", "checkpoints", "config.toml"):
            self.best = reader.best() if reader.chosen_score else None
        self._stamps = stamps
        return True

    def _has(self, *names: str) -> bool:
        """Return whether one of these files changed."""
        return not self._changed.isdisjoint(names)

    def _read_pictures(self) -> None:
        if self._has("samples"):
            self.grids = [(round_of(path), path) for path in self.reader.sample_grids()]
        if self._has("samples/cells"):
            paths = self.reader.cell_grids()
            self.cell_grids = [(round_of(path), path) for path in paths]

    @property
    def folder(self) -> Path:
        """The run folder as the user typed it; the commands on the page use it."""
        return self.reader.folder

    @property
    def reached(self) -> int:
        """The last round that was trained."""
        return self.rounds.last.get("round", 0)

    @property
    def planned(self) -> int:
        """The number of rounds to train."""
        return self.setting("run", "rounds")

    def state(self, now: datetime | None = None) -> tuple[str, list[str]]:
        """Return whether the run is running, finished, stopped, killed or unknown, and remarks."""
        if self.written is None:
            state, remarks = status.guess_state(self.reached, self.planned)
        else:
            state, remarks = status.state_of(self.written, now or datetime.now(UTC))
        if state == "running" and self.has_ended:
            state = "finished" if self.reached >= self.planned or self.ending else "stopped"
        return ("unknown" if state == "not known" else state), remarks

    @property
    def has_ended(self) -> bool:
        """Whether the last start or resume has trained its last round.

        The run then writes its page before it writes its state for the last time.
        """
        return bool(self.environments) and "seconds" in self.environments[-1]

    @property
    def strategy(self) -> str:
        """The name of the strategy."""
        return self.setting("strategy", "name")

    @property
    def noun(self) -> str:
        """The noun for a member: class, cell, worker or member."""
        noun = MEMBER_NOUNS.get(self.strategy, "member")
        return "member" if noun == "pair" else noun

    @property
    def grid(self) -> tuple[int, int] | None:
        """The rows and columns of cells; None if the members are not cells."""
        strategy = self.section("strategy")
        height: Any = strategy.get("height")
        width: Any = strategy.get("width")
        if self.noun == "cell" and is_whole(height) and is_whole(width) and min(height, width) > 0:
            return height, width
        return None

    @property
    def num_members(self) -> int:
        """The number of members, including lost ones; 0 if it is not known yet."""
        suggested = len(self.classes) if self.is_by_class else 0
        return self.rounds.members.total or self.setting("run", "members") or suggested

    @property
    def is_by_class(self) -> bool:
        """Whether member i learns class i."""
        return self.noun == "class"

    @property
    def has_labels(self) -> bool:
        """Whether the model can be asked for images of a class."""
        return self.is_by_class or bool(self.section("networks").get("conditional", False))

    @property
    def classes(self) -> list[str]:
        """The names of the classes; empty if data.json is missing."""
        return self.data.classes if self.data else []

    @property
    def is_points(self) -> bool:
        """Whether the data are points in the plane, which the page shows as scatter plots."""
        return self.data is not None and self.data.is_points

    @property
    def ending(self) -> Ending | None:
        """Why the run ended before its last round; None if it did not."""
        if self.reached >= self.planned:
            return None
        return ending(self.section("run"), self.scores, self.reached, self.rounds.seconds)

    def section(self, name: str) -> dict[str, Any]:
        """Return a section of config.toml; empty if it is missing."""
        found = self.settings.get(name)
        return found if isinstance(found, dict) else {}

    def setting(self, section: str, key: str) -> Any:
        """Return a setting of config.toml."""
        try:
            return self.settings[section][key]
        except (KeyError, TypeError):
            path = self.folder / "config.toml"
            raise damaged(path, f"{section}.{key} is missing") from None


def read(folder: Path, name: str = "") -> Run:
    """Read the folder of a run, which may still be training."""
    return Run(Path(folder), name)


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn errors that unexpected content of a run's files causes into one sentence."""
    try:
        yield
    except UserError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UserError(
            f"{folder} cannot be shown, because a file in it has unexpected content "
            f"({type(error).__name__}: {error}): restore the folder from a copy"
        ) from error


Source = Callable[[Path], dict[str, Any] | None]  # turns a picture into what a page can show
