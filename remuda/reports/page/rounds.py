"""Follow rounds.jsonl: condense every line once, as soon as it is complete."""

from typing import Any

from remuda.record.files import Line
from remuda.record.reader import Reader
from remuda.record.rounds import parse_round
from remuda.reports.page.curves import Curves, is_row, placed
from remuda.reports.page.members import Members
from remuda.reports.tail import Tail

RECENT = 50  # rounds whose mean duration predicts the remaining time
MAX_SWAP_VALUES = 20_000  # workers times swaps that are kept


class Rounds:
    """The content of rounds.jsonl, condensed line by line because the file may be large.

    ``name`` is the start of the curves' generations; it tells servers apart.
    """

    def __init__(self, reader: Reader, lost: list[int], name: str = ""):
        self._reader, self._lost = reader, lost
        self._tail = Tail(reader.folder / "rounds.jsonl", parse_round)
        self.curves = Curves(name)
        self._restart()

    def _restart(self) -> None:
        self.curves.restart()
        self.members = Members(self._reader.failures, self._lost)
        self.last: Line = {}  # the newest line; empty before the first round
        self.neighbours: list[list[int]] = []  # of each cell, by its id; lost cells have none
        self.recent: list[float] = []  # seconds of the newest rounds
        self.routines: dict[str, float] = {}  # total seconds of each routine
        self.num_timed = 0  # rounds that report routines
        self.seconds_timed = 0.0  # duration of these rounds, including time between routines
        self.swaps: list[dict[str, Any]] = []  # the newest swaps of discriminators
        self.num_swaps = 0
        self.turns: dict[int, float] = {}  # asynchronous turns so far, by member id

    def read(self) -> None:
        """Read the lines that were added since the last call."""
        for line in self._tail.read(self._restart):
            self._add(line)

    def _add(self, line: Line) -> None:
        self.curves.add(line, self.members)
        self.recent = [*self.recent[-RECENT + 1 :], line["seconds"]]
        if routines := line.get("routines"):
            for name, seconds in routines.items():
                self.routines[name] = self.routines.get(name, 0.0) + seconds
            self.num_timed += 1
            self.seconds_timed += line["seconds"]
        self._add_neighbours(line)
        self._add_swap(line)
        self._add_turns(line)
        self.last = line

    def _add_neighbours(self, line: Line) -> None:
        rows = line.get("neighbours")
        if isinstance(rows, list) and rows and all(map(is_row, rows)):
            ids = self.members.places(line["round"], len(rows)) or ()
            known = dict(zip(ids, rows, strict=False))
            self.neighbours = [known.get(i, []) for i in range(self.members.total)]

    def _add_swap(self, line: Line) -> None:
        moved = line.get("moved_from")
        source = moved.get("members") if isinstance(moved, dict) else None
        if is_row(source):
            self.num_swaps += 1
            self.swaps.append({"round": line["round"], "from": source})
            del self.swaps[: -max(1, MAX_SWAP_VALUES // len(source))]

    def _add_turns(self, line: Line) -> None:
        turns = line.get("turns")
        if is_row(turns):
            ids = self.members.places(line["round"], len(turns)) or ()
            for member, number in zip(ids, turns, strict=False):
                self.turns[member] = self.turns.get(member, 0) + number

    @property
    def seconds(self) -> float:
        """The duration of all rounds."""
        return self.curves.seconds

    def last_metrics(self) -> dict[str, list[float]]:
        """Return the metrics of the newest round, in the columns of the curves."""
        found = {}
        for name, track in self.curves.metrics.items():
            values = self.last.get(name)
            if not is_row(values):
                continue
            if name in self.curves.by_member:
                ids = self.members.places(self.last["round"], len(values))
                if ids is None:
                    continue
                values = placed(values, ids, track.width)
            found[name] = values
        return found
