"""How a run is doing, seen from outside: from its record alone, while it trains and afterwards."""

import json
import platform
import statistics
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from remuda.errors import UserError
from remuda.record.record import Record
from remuda.system.processes import Process
from remuda.system.text import count, duration
from remuda.training.progress import describe

STALE = (
    30.0  # seconds; status.json is written every second, but a shared file system may show it late
)
QUIET = 5.0  # seconds; a process of this machine should not take that long
RECENT = 50  # rounds whose pace says what is left


@dataclass(frozen=True, kw_only=True)
class Status:
    folder: Path
    state: str  # running, finished, stopped, killed, or not known
    remarks: list[str]
    rounds: int
    recent: list[dict[str, Any]]  # the last lines of rounds.jsonl
    scores: list[dict[str, Any]]  # those of the last scored round
    ranks: list[dict[str, Any]]  # as in status.json
    losses: list[dict[str, Any]]  # of ranks

    @property
    def reached(self) -> int:
        return self.recent[-1]["round"] if self.recent else 0


def look(folder: Path, now: datetime | None = None) -> Status:
    record = Record.open(folder)
    told = _read(folder / "status.json")
    recent = _tail(folder / "rounds.jsonl")[-RECENT:]
    rounds = told["rounds"] if told else record.config.run.rounds
    state, remarks = _state(told, now or datetime.now(UTC)) if told else _guess(recent, rounds)
    scores = _tail(folder / "scores.jsonl")
    newest = {score["name"]: score for score in scores if score["round"] == scores[-1]["round"]}
    ranks = told["ranks"] if told else []
    return Status(
        folder=folder,
        state=state,
        remarks=[*remarks, *(rank["remark"] for rank in ranks if rank["remark"])],
        rounds=rounds,
        recent=recent,
        scores=list(newest.values()),
        ranks=ranks,
        losses=_tail(folder / "losses.jsonl"),
    )


def _state(told: dict[str, Any], now: datetime) -> tuple[str, list[str]]:
    """Who is killed cannot write it down: here its process is gone, elsewhere nothing is written any more."""
    if told["state"] != "running":
        return told["state"], [told["why"]] if told["why"] else []
    root = told["ranks"][0]
    age = (now - datetime.fromisoformat(told["time"])).total_seconds()
    if root["host"] == platform.node():
        if not Process(root["host"], root["pid"], root["born"]).is_alive:
            return "killed", []
        quiet = (
            f"nothing was written for {duration(age)}: process {root['pid']} is stopped or held up"
        )
        return "running", [quiet] if age > QUIET else []
    if age > STALE:
        return "killed", [
            f"nothing was written for {duration(age)}: {root['host']} was last to train it"
        ]
    return "running", []


def _guess(recent: list[dict[str, Any]], rounds: int) -> tuple[str, list[str]]:
    if recent and recent[-1]["round"] >= rounds:
        return "finished", []
    return "not known", [
        "it has no status.json: training has not begun, or an older version has trained it"
    ]


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UserError(
            f"{path} cannot be read ({error}): the next remuda resume writes it anew"
        ) from None


def _tail(path: Path, num_bytes: int = 1 << 18) -> list[dict[str, Any]]:
    """The last complete lines, without reading a long run's whole file; a kill may have torn the very last."""
    try:
        with path.open("rb") as file:
            start = max(0, file.seek(0, 2) - num_bytes)
            file.seek(start)
            lines = file.read().split(b"\n")[1 if start else 0 : -1]
    except FileNotFoundError:
        return []
    if not lines and start:
        return _tail(path, 8 * num_bytes)
    try:
        found = [json.loads(line) for line in lines]
        if not all(isinstance(line, dict) and isinstance(line.get("round"), int) for line in found):
            raise ValueError("a line names no round")
        return found
    except ValueError as error:
        raise UserError(f"{path} cannot be read ({error}): the run is damaged") from None


# Showing it


def show(folder: Path, console: Console) -> None:
    console.print(render(look(folder)), soft_wrap=True)


def follow(folder: Path, console: Console) -> None:
    """Again every second, until the run ends or the user does not want to see more."""
    with (
        suppress(KeyboardInterrupt),
        Live(console=console, auto_refresh=False, transient=True) as live,
    ):
        while (status := look(folder)).state == "running":
            live.update(render(status), refresh=True)
            time.sleep(1.0)
    show(folder, console)


def render(status: Status) -> RenderableType:
    parts: list[RenderableType] = [Text(line) for line in _words(status)]
    if len(status.ranks) > 1:
        parts.append(_table(status))
    parts += [Text(_loss(loss)) for loss in status.losses]
    return Group(*parts, *(Text(remark) for remark in status.remarks))


def _words(status: Status) -> Iterator[str]:
    head = [f"{status.folder}: {status.state}", f"round {status.reached:,} of {status.rounds:,}"]
    if status.recent:
        pace = statistics.fmean(line["seconds"] for line in status.recent)
        head.append(f"{pace:.3g} s a round")
        if status.state == "running":
            head.append(f"{duration(pace * (status.rounds - status.reached))} left")
    yield ", ".join(head)
    if status.recent:
        yield describe(status.recent[-1])
    if status.scores:
        values = ", ".join(f"{score['name']} {score['value']:.4g}" for score in status.scores)
        yield f"scores of round {status.scores[0]['round']:,}: {values}"


def _table(status: Status) -> Table:
    titles = ("rank", "host", "process", "device", "members", "state", "round", "heard", "")
    table = Table(*titles, box=None, pad_edge=False)
    for rank in status.ranks:
        members = _spans(rank["members"])
        heard = f"{rank['silent']:.0f} s ago" if status.state == "running" else ""
        contact = "" if rank["contact"] == "on time" else rank["contact"]
        cells = (
            rank["rank"],
            rank["host"],
            rank["pid"],
            rank["device"],
            members,
            rank["state"],
            rank["round"],
        )
        table.add_row(*map(str, cells), heard, contact)
    return table


def _loss(loss: dict[str, Any]) -> str:
    ranks = f"{count(len(loss['ranks']), 'rank')} ({_spans(loss['ranks'])})"
    hosts, members = ", ".join(dict.fromkeys(loss["hosts"])), _spans(loss["members"]) or "none"
    return f"after round {loss['round']:,}: lost {ranks} on {hosts} with members {members}; {loss['action']}"


def _spans(numbers: list[int]) -> str:
    """0-2, 5"""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], number]
        else:
            spans.append([number])
    return ", ".join("-".join(map(str, span)) for span in spans)
