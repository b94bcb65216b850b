"""Show the status of a run, during training or afterwards, from its folder."""

import platform
import statistics
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from remuda.record import endings
from remuda.record.files import Line
from remuda.record.reader import Reader
from remuda.record.rounds import describe
from remuda.record.scores import Score
from remuda.record.trackers import Tracked
from remuda.system import look
from remuda.system.processes import Process
from remuda.system.text import count, duration

# A run writes status.json about once a second. If it trains on another machine, a shared file
# system may deliver the file late.
QUIET = 5.0  # seconds without an update until a process on this machine is reported as blocked
STALE = 30.0  # seconds without an update until a run on another machine counts as killed
RECENT = 50  # rounds whose mean duration predicts the remaining time


@dataclass(frozen=True, kw_only=True)
class Status:
    """Everything that ``remuda status`` shows."""

    folder: Path
    state: str  # running, finished, stopped, killed, or not known
    remarks: list[str]
    rounds: int  # to train
    recent: list[Line]  # the last lines of rounds.jsonl
    scores: list[Score]  # of the last scored round
    best: Score | None  # of the best checkpoint, if the run keeps one
    ranks: list[dict[str, Any]]  # as in status.json
    failures: list[Line]  # as in failures.jsonl
    trackers: dict[str, Tracked] = field(default_factory=dict)  # as in trackers.json

    @property
    def reached(self) -> int:
        """The last round that was trained."""
        return self.recent[-1]["round"] if self.recent else 0


def read(folder: Path, now: datetime | None = None) -> Status:
    """Return the status of a run at this moment."""
    reader = Reader.open(folder)
    written = reader.status()
    recent = reader.last_rounds(RECENT)
    if written is None:
        rounds, ranks = reader.setting("run", "rounds"), []
        state, remarks = guess_state(recent[-1]["round"] if recent else 0, rounds)
    else:
        rounds, ranks = written["rounds"], written["ranks"]
        state, remarks = state_of(written, now or datetime.now(UTC))
    scores = reader.scores()
    return Status(
        folder=folder,
        state=state,
        remarks=[*remarks, *(rank["remark"] for rank in ranks if rank["remark"])],
        rounds=rounds,
        recent=recent,
        scores=[score for score in scores if score.round == scores[-1].round],
        best=reader.best(),
        ranks=ranks,
        failures=reader.failures(),
        trackers=reader.trackers(),
    )


def state_of(written: dict[str, Any], now: datetime) -> tuple[str, list[str]]:
    """Return the state, and remarks about it. A killed run cannot record its own end.

    A run on this machine counts as killed if its process has ended. A run on another machine
    counts as killed if status.json is old.
    """
    if written["state"] != "running":
        return written["state"], [written["why"]] if written["why"] else []
    root = written["ranks"][0]
    age = (now - datetime.fromisoformat(written["time"])).total_seconds()
    if root["host"] == platform.node():
        if not Process(root["host"], root["pid"], root["born"]).is_alive:
            return "killed", []
        if age > QUIET:
            late = f"nothing was written for {duration(age)}"
            return "running", [f"{late}: process {root['pid']} is stopped or blocked"]
        return "running", []
    if age > STALE:
        late = f"nothing was written for {duration(age)}"
        return "killed", [f"{late}: the run was last trained on {root['host']}"]
    return "running", []


def guess_state(reached: int, rounds: int) -> tuple[str, list[str]]:
    """Guess the state of a run that has no status.json; return it with remarks."""
    if reached >= rounds:
        return "finished", []
    return "not known", [
        "the run has no status.json: training has not started, or an older version trained it"
    ]


# Display of a status on a terminal


def show(folder: Path, console: Console) -> None:
    """Print the status once."""
    console.print(render(read(folder)), soft_wrap=True)


def follow(folder: Path, console: Console) -> None:
    """Print the status every second, until the run ends or the user presses Ctrl-C."""
    with (
        suppress(KeyboardInterrupt),
        Live(console=console, auto_refresh=False, transient=True) as live,
    ):
        while (status := read(folder)).state == "running":
            live.update(render(status), refresh=True)
            time.sleep(1.0)
    show(folder, console)


def render(status: Status) -> RenderableType:
    """Return the status as text; with several ranks, add a table."""
    parts: list[RenderableType] = [Text(line) for line in _lines(status)]
    if len(status.ranks) > 1:
        parts.append(_table(status))
    parts += [Text(_failure(line)) for line in status.failures]
    return Group(*parts, *(Text(remark) for remark in status.remarks))


def _lines(status: Status) -> Iterator[str]:
    head = [f"{status.folder}: {status.state}", f"round {status.reached:,} of {status.rounds:,}"]
    if status.recent:
        seconds = statistics.fmean(line["seconds"] for line in status.recent)
        head.append(f"{seconds:.3g} s per round")
        if status.state == "running":
            head.append(f"{duration(seconds * (status.rounds - status.reached))} left")
    yield ", ".join(head)
    if status.recent:
        yield describe(status.recent[-1])
    if status.scores:
        values = ", ".join(f"{score.name} {score.value:.4g}" for score in status.scores)
        yield f"scores of round {status.scores[0].round:,}: {values}"
    if status.best is not None:
        yield f"best checkpoint: {endings.describe(status.best)}"
    for name, entry in status.trackers.items():
        yield f"{name}: {entry.place}, up to round {entry.rounds:,}"


def _table(status: Status) -> Table:
    titles = ("rank", "host", "process", "device", "members", "speed", "state", "round")
    titles = (*titles, "last seen", "")
    table = look.table(*titles)
    for rank in status.ranks:
        cells = [str(rank.get(name, "")) for name in ("rank", "host", "pid", "device")]
        cells += [_spans(rank.get("members", [])), _speed(rank.get("speed"))]
        cells += [str(rank.get(name, "")) for name in ("state", "round")]
        silent = rank.get("silent") if status.state == "running" else None
        seen = "" if silent is None else f"{silent:.0f} s ago"
        contact = rank.get("contact", "on time").replace("on time", "")
        table.add_row(*cells, seen, contact)
    return table


def _speed(speed: float | None) -> str:
    """Format a rank's speed: how many members finish a round in a second."""
    return "" if speed is None else f"{speed:.3g}/s"


def _failure(line: Line) -> str:
    ranks = f"{count(len(line['ranks']), 'rank')} ({_spans(line['ranks'])})"
    hosts, members = ", ".join(dict.fromkeys(line["hosts"])), _spans(line["members"]) or "none"
    start = f"after round {line['round']:,}: lost {ranks} on {hosts}"
    return f"{start} with members {members}; {line['action']}"


def _spans(numbers: list[int]) -> str:
    """Format numbers as ranges, such as ``0-2, 5``."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], number]
        else:
            spans.append([number])
    return ", ".join("-".join(map(str, span)) for span in spans)
