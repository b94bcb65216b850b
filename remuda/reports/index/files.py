"""Read the files of a run cheaply: only what changed, and only the ends of long files."""

import math
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from remuda.record.files import Line, is_whole, parse_line, require
from remuda.record.rounds import parse_round
from remuda.reports.status import RECENT
from remuda.reports.tail import Tail, stamp_of
from remuda.scores.directions import LOWER

SMALL = 1 << 16  # bytes; a longer rounds.jsonl is not read completely
HEAD = 1 << 13  # bytes to read from its start


class Cached:
    """A value that is made from a file or folder, and made again when it changes."""

    def __init__(self, path: Path, make: Callable[[Path], Any]):
        self.path = path
        self._make = make
        self._stamp: tuple[int, int] | None = None
        self._value: Any = None

    def get(self) -> Any:
        """Return the value; None if the path does not exist."""
        stamp = stamp_of(self.path)
        if stamp is None:
            self._stamp, self._value = None, None
        elif stamp != self._stamp:
            self._value = self._make(self.path)  # if this raises, the next call tries again
            self._stamp = stamp
        return self._value


class Rounds:
    """The last round and the total time, from rounds.jsonl.

    The file of a long run may have hundreds of megabytes. The first call then reads its start and
    its end, and estimates the total time. Later calls read only new lines.
    """

    def __init__(self, path: Path):
        self._tail = Tail(path, parse_round, small=SMALL)
        self._restart()

    def _restart(self) -> None:
        self.reached = 0
        self.seconds = 0.0
        self.is_exact = True
        self.recent: deque[float] = deque(maxlen=RECENT)  # seconds of the last rounds
        self._has_lines = False

    def update(self) -> None:
        """Read what was added since the last call."""
        for line in self._tail.read(self._restart):
            if self._tail.skipped and not self._has_lines:
                self._estimate(line)
            self._has_lines = True
            self.reached = line["round"]
            self.seconds += line["seconds"]
            self.recent.append(line["seconds"])

    def _estimate(self, line: Line) -> None:
        """Estimate the time before a line from the first rounds and this one."""
        path = self._tail.path
        with path.open("rb") as file:
            texts = file.read(HEAD).split(b"\n")[:-1]
        first = [parse_line(path, text, "a line at the start", parse_round) for text in texts]
        seconds = [one["seconds"] for one in [*first, line]]
        self.seconds = (line["round"] - 1) * sum(seconds) / len(seconds)
        self.is_exact = False


class Measured(NamedTuple):
    """The value of a score after a round."""

    round: int
    value: float  # may be NaN or infinite


class Scores:
    """All scores of a run by name and round, from scores.jsonl."""

    def __init__(self, path: Path):
        self._tail = Tail(path, _parse_score)
        self._restart()

    def _restart(self) -> None:
        # A run may be scored again: the last line of a round and name counts.
        self.values: dict[str, dict[int, float]] = {}
        self.better: dict[str, str] = {}  # for scores of users

    def update(self) -> None:
        """Read what was added since the last call."""
        for line in self._tail.read(self._restart):
            self.values.setdefault(line["name"], {})[line["round"]] = line["value"]
            self.better[line["name"]] = str(line.get("better", ""))

    def newest(self, name: str) -> Measured:
        """Return the value of the last round that has this score."""
        return Measured(*max(self.values[name].items()))

    def best(self, name: str, sign: str) -> Measured | None:
        """Return the best finite value; of equal ones, the earliest. None if there is none."""
        factor = 1 if sign == LOWER else -1
        finite = [(factor * v, t, v) for t, v in self.values[name].items() if math.isfinite(v)]
        if not sign or not finite:
            return None
        _, t, value = min(finite)
        return Measured(t, value)


def _parse_score(line: Line) -> Line:
    """Check only the fields that a summary shows, because there may be many lines."""
    require(line, "round", is_whole)
    require(line, "name", lambda value: isinstance(value, str))
    require(line, "value", lambda value: isinstance(value, int | float))
    return line
