"""Send a run to its trackers, in a background thread.

Trackers mirror the run folder. trackers.json contains what each tracker has received, so a resume
sends what is missing, and nothing twice.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

from remuda.errors import Interrupted, resume_command
from remuda.record import Record
from remuda.record.files import Line
from remuda.record.reader import round_of
from remuda.record.rounds import is_metric
from remuda.record.scores import Score
from remuda.record.trackers import Tracked
from remuda.system.background import Background
from remuda.system.text import Notify
from remuda.system.trackers import TRACKERS, Link, Tracker
from remuda.training.progress import Progress

__all__ = ["TRACKERS", "Link", "Tracker", "Tracking"]

MOST_MEMBERS = 100  # a larger herd sends only means
BACKLOG = 1000  # rounds that may wait to be sent; if a tracker is that slow, training waits
SECONDS_BETWEEN_RESULTS = 1.0  # in which the tracker's thread reads no scores and samples
COUNTERS = ("images_per_second", "seconds", "images", "bytes", "memory")


class Tracking(Progress):
    """Mirror a run to trackers. If one fails, report it once and continue without it."""

    def __init__(self, names: Iterable[str], record: Record, notify: Notify):
        self.names, self.record, self.notify = names, record, notify
        self.mirrors: list[Mirror] = []
        self.entries: dict[str, Tracked] = {}  # also of trackers that an earlier process used
        self.thread = Background("trackers", BACKLOG)
        self.has_started = False

    def __enter__(self) -> Self:
        folder = self.record.folder
        self.entries = self.record.trackers()
        for name in self.names:
            tracker = TRACKERS[name](folder)
            self.mirrors.append(Mirror(name, tracker, self.record, self.entries.get(name)))
        return self

    def start(self, folder: Path, rounds: int, reached: int, num_members: int) -> None:
        self.has_started = True
        self._submit(Mirror.start)
        self.rewind(reached, num_members)

    def rewind(self, reached: int, num_members: int) -> None:
        lost = self.record.settings["run"].get("lost", [])
        ids = [i for i in range(num_members + len(lost)) if i not in lost]
        self._submit(partial(Mirror.rewind, reached=reached, member_ids=ids))

    def round(self, line: Line) -> None:
        self._submit(partial(Mirror.send_round, line=line))

    def __exit__(self, *exception: object) -> None:
        # Another process that has taken over the run continues it at the trackers as well.
        if self.has_started and self.record.is_ours():
            self._submit(partial(Mirror.end, error=exception[1]))
        self.thread.close()

    def _submit(self, action: Callable[["Mirror"], None]) -> None:
        self.thread.submit(lambda: self._do(action))

    def _do(self, action: Callable[["Mirror"], None]) -> None:
        """Run an action for each tracker that works, then record what they have received."""
        for mirror in self.mirrors:
            try:
                if mirror.is_working:
                    action(mirror)
            except Exception as error:  # of any kind: a tracker must not stop the training
                mirror.is_working = False
                reason = " ".join(str(error).split()) or type(error).__name__
                self.notify(
                    f"the tracker {mirror.name} failed ({reason}): training continues without it; "
                    f"{resume_command(self.record.folder)} sends what is missing"
                )
        if self.record.is_ours():
            new = {mirror.name: mirror.entry for mirror in self.mirrors if mirror.entry is not None}
            self.record.replace_trackers(self.entries | new)


@dataclass
class Mirror:
    """One tracker, and what it has received. Only the background thread calls its methods."""

    name: str
    tracker: Tracker
    record: Record
    entry: Tracked | None = None  # None before the tracker knows the run
    member_ids: Sequence[int] = ()
    is_working: bool = True
    next_results: float = 0.0  # on time.monotonic's clock

    def start(self) -> None:
        """Start the run at the tracker, or continue it."""
        known = self.entry
        old = Link(known.id, known.place) if known else None
        link = self.tracker.start(old, self.record.settings)
        if known and known.id == link.id:
            self.entry = replace(known, place=link.place)
        else:
            self.entry = Tracked(id=link.id, place=link.place)

    def rewind(self, reached: int, member_ids: Sequence[int]) -> None:
        """Prepare for the round after ``reached``, and send everything before it."""
        assert self.entry is not None
        self.member_ids = member_ids
        kept = self.tracker.rewind(reached)
        if kept is not None:
            self.entry = self.entry.up_to(kept)
        for line in self.record.iterate_rounds():
            if line["round"] <= reached:
                self.send_round(line)
        self._send_results(reached)

    def send_round(self, line: Line) -> None:
        """Send a round, and the results of earlier rounds, unless the tracker has them."""
        assert self.entry is not None
        t = line["round"]
        if t > self.entry.rounds:
            self.tracker.log(t, values_of(line, self.member_ids))
            self.entry = replace(self.entry, rounds=t)
        if time.monotonic() >= self.next_results:
            self._send_results(t - 1)  # those of this round may not be complete yet
            self.next_results = time.monotonic() + SECONDS_BETWEEN_RESULTS

    def end(self, error: object) -> None:
        """Send the last results and the final state."""
        assert self.entry is not None
        self._send_results(self.entry.rounds)
        if error is None:
            self.tracker.end("finished")
        else:
            self.tracker.end("stopped" if isinstance(error, Interrupted) else "failed")

    def _send_results(self, last: int) -> None:
        """Send scores and samples up to a round, unless the tracker has them."""
        entry = self.entry
        assert entry is not None
        found: dict[int, list[Score]] = {}
        for score in self.record.scores():
            if entry.scores < score.round <= last:
                found.setdefault(score.round, []).append(score)
        for t, scores in found.items():
            self.tracker.log(t, values_of_scores(scores))
            self.entry = entry = replace(entry, scores=t)
        for path in self.record.sample_grids():
            if entry.samples < round_of(path) <= last:
                cells = self.record.cell_path(round_of(path))
                for picture in filter(Path.exists, (cells, path)):
                    self.tracker.picture(round_of(path), picture)
                self.entry = entry = replace(entry, samples=round_of(path))


def values_of(line: Line, member_ids: Sequence[int]) -> dict[str, float]:
    """Return the values of a round for trackers: means, each member's metrics, and counters."""
    found: dict[str, float] = {}
    for name, values in line.items():
        if is_metric(values):
            found[f"{name}/mean"] = statistics.fmean(values)
            # A metric with fewer values, such as a server's, belongs to no member.
            if len(values) == len(member_ids) <= MOST_MEMBERS:
                ids = zip(member_ids, values, strict=True)
                found |= {f"{name}/member {member}": value for member, value in ids}
    return found | {name: line[name] for name in COUNTERS if name in line}


def values_of_scores(scores: Sequence[Score]) -> dict[str, float]:
    """Return the scores of a round for trackers, and their floors: those of real images."""
    found = {f"scores/{score.name}": float(score.value) for score in scores}
    floors = {f"floors/{score.name}": score.floor for score in scores}
    return found | {name: float(floor) for name, floor in floors.items() if floor is not None}
