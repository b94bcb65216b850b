"""Summarise each run of a folder: state, progress, scores and the newest picture."""

import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from remuda.errors import UserError
from remuda.record.files import damaged
from remuda.record.reader import Reader, round_of
from remuda.reports import status
from remuda.reports.index.files import Cached, Measured, Rounds, Scores
from remuda.scores.directions import direction

DEPTH = 3  # levels of folders in which runs are searched
DAMAGED = "damaged"


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One score of a run over its rounds."""

    name: str
    direction: str  # ↓ or ↑; "" if neither is better
    best: Measured | None  # None if neither direction is better, or no value is finite
    newest: Measured


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What the index and ``remuda status FOLDER`` show of a run."""

    name: str  # the path from the folder of runs
    folder: Path
    state: str  # as in remuda.reports.status, or damaged
    remarks: list[str] = field(default_factory=list)
    strategy: str = ""
    data: str = ""
    is_points: bool = False  # whether the data are points, so that pictures are plots
    reached: int = 0
    planned: int = 0
    left: float | None = None  # seconds; None unless the run is training
    seconds: float = 0.0  # of all rounds
    is_exact: bool = True  # false: the seconds are estimated
    started: str = ""  # time of the first start; "" if not known
    scores: list[Scored] = field(default_factory=list)
    chosen: Scored | None = None  # the score that decides about the best round
    grid: tuple[int, Path] | None = None  # round and path of the newest samples


class Cache:
    """What is known about the runs of a folder, so that an update reads only what changed."""

    def __init__(self) -> None:
        self._entries: dict[Path, _Entry] = {}

    def summaries(self, folder: Path, now: datetime | None = None) -> list[Summary]:
        """Summarise all runs in a folder, ordered by name."""
        now = now or datetime.now(UTC)
        paths = find(folder)
        self._entries = {path: self._entries.get(path) or _Entry(path) for path in paths}
        return [
            _summarise(path.relative_to(folder).as_posix(), entry, now)
            for path, entry in self._entries.items()
        ]


def find(folder: Path) -> list[Path]:
    """Return the run folders in a folder, also in folders of runs such as those of repeats."""
    return sorted(_find(folder, DEPTH))


def _find(folder: Path, depth: int) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            inner = [Path(one.path) for one in entries if one.name[0] != "." and _is_dir(one)]
    except OSError as error:
        if depth == DEPTH:
            raise UserError(f"{folder} cannot be read ({error.strerror}): check its name") from None
        return  # such as a folder of another user
    for path in inner:
        if is_run(path):
            yield path
        elif depth > 1:
            yield from _find(path, depth - 1)


def is_run(folder: Path) -> bool:
    """Return whether a folder has settings that this user may see."""
    try:
        return (folder / "config.toml").is_file()
    except OSError:  # such as a folder of another user
        return False


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # such as a link that leads to itself
        return False


class _Entry:
    """The files of one run."""

    def __init__(self, folder: Path):
        self.folder = folder
        reader = Reader(folder)
        self.settings = Cached(folder / "config.toml", _read_settings)
        self.status = Cached(folder / "status.json", lambda _: reader.status())
        self.data = Cached(folder / "data.json", lambda _: reader.facts)
        self.started = Cached(folder / "environment.json", lambda _: _start(reader))
        self.grid = Cached(folder / "samples", lambda _: _newest_grid(reader))
        self.rounds = Rounds(folder / "rounds.jsonl")
        self.scores = Scores(folder / "scores.jsonl")


def _summarise(name: str, entry: _Entry, now: datetime) -> Summary:
    try:
        return _read(name, entry, now)
    except (UserError, OSError) as error:
        return Summary(name=name, folder=entry.folder, state=DAMAGED, remarks=[str(error)])


def _read(name: str, entry: _Entry, now: datetime) -> Summary:
    settings = entry.settings.get()
    rounds, scores = entry.rounds, entry.scores
    rounds.update()
    scores.update()
    planned, facts = settings["rounds"], entry.data.get()
    written = entry.status.get()
    if written is None:
        state, remarks = status.guess_state(rounds.reached, planned)
    else:
        planned = written["rounds"]
        state, remarks = _state(entry.folder, written, now)
    left = None
    if state == "running" and rounds.recent:
        left = statistics.fmean(rounds.recent) * max(0, planned - rounds.reached)
    scored = [_scored(scores, name) for name in scores.values]
    return Summary(
        name=name,
        folder=entry.folder,
        state=state,
        remarks=remarks,
        strategy=settings["strategy"],
        data=facts.name if facts else settings["data"],
        is_points=facts is not None and facts.is_points,
        reached=rounds.reached,
        planned=planned,
        left=left,
        seconds=rounds.seconds,
        is_exact=rounds.is_exact,
        started=entry.started.get() or "",
        scores=scored,
        chosen=_chosen(scored, settings["keep_best"]),
        grid=entry.grid.get(),
    )


def _state(folder: Path, written: dict[str, Any], now: datetime) -> tuple[str, list[str]]:
    try:
        state, remarks = status.state_of(written, now)
        return state, [*remarks, *(rank["remark"] for rank in written["ranks"] if rank["remark"])]
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(folder / "status.json", error) from None


def _scored(scores: Scores, name: str) -> Scored:
    sign = direction(name, scores.better[name])
    best, newest = scores.best(name, sign), scores.newest(name)
    return Scored(name=name, direction=sign, best=best, newest=newest)


def _chosen(scores: list[Scored], name: str) -> Scored | None:
    """Return the score by which the run keeps its best round; otherwise the first with a best."""
    named = [one for one in scores if one.name == name]
    return next((one for one in [*named, *scores] if one.best is not None), None)


def _read_settings(path: Path) -> dict[str, Any]:
    """Return the few settings that a summary shows."""
    settings = Reader(path.parent).settings
    try:
        run, strategy = settings["run"], settings["strategy"]
        return {
            "strategy": str(strategy["name"]),
            "data": str(settings["data"]["name"]),
            "rounds": run["rounds"],
            "keep_best": str(run.get("keep_best", "")),
        }
    except KeyError as error:
        raise damaged(path, f"{error} is missing") from None


def _start(reader: Reader) -> str:
    entries = reader.environments()
    return str(entries[0].get("time", "")) if entries else ""


def _newest_grid(reader: Reader) -> tuple[int, Path] | None:
    grids = reader.sample_grids()
    return (round_of(grids[-1]), grids[-1]) if grids else None
