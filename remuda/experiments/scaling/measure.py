"""Runs on ranks, started as a user would, and what their records say of the time."""

import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remuda import config as configs
from remuda.errors import Interrupted, UserError
from remuda.experiments.scaling.plan import Case
from remuda.record.record import Record
from remuda.system import disk


@dataclass(frozen=True)
class Measured:
    """Of a number of ranks: all rounds of all repeats, without each run's first, which starts things up.

    A round's time is that of the slowest rank: all begin it together, and rank 0, whose clock counts, ends it with the
    losses of all members in its hands.
    """

    ranks: int
    members: int
    seconds: list[float]
    verbs: dict[str, float]  # seconds of a round, medians; at rank 0, waiting included
    calls: dict[str, float]  # of a round, means: not every round has every verb
    traffic: dict[str, float]  # bytes of a round by verb and direction, means

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def bytes(self) -> float:
        return sum(self.traffic.values())


def measure(
    cases: Sequence[Case], repeats: int, out: Path, say: Callable[[str], None]
) -> tuple[list[Measured], float | None]:
    """Every case so many times, in turns forwards and backwards, so that a busy minute hits all; finished runs stay.

    Also the machine's load before the first of them, or None where all were finished.
    """
    if repeats < 1:
        raise UserError(f"--repeats must be at least 1, not {repeats}")
    plan = {
        case.ranks: [out / f"{case.ranks}-ranks-{i + 1}" for i in range(repeats)] for case in cases
    }
    for case in cases:  # before hours are spent on the others
        for folder in plan[case.ranks]:
            _refuse_another_run(folder, case)
    load = None
    for i in range(repeats):
        for case in cases if i % 2 == 0 else reversed(cases):
            folder = plan[case.ranks][i]
            if _is_finished(folder, case):
                say(f"{folder} is finished")
                continue
            load = os.getloadavg()[0] if load is None else load
            _train(case, folder, say)
    return [
        summary(case, [Record.open(folder).rounds() for folder in plan[case.ranks]])
        for case in cases
    ], load


def summary(case: Case, runs: Iterable[list[dict[str, Any]]]) -> Measured:
    """Of the lines that runs have left in their records."""
    lines = [line for rounds in runs for line in rounds[1:]]

    def column(name: str, middle: Callable[[list[float]], float]) -> dict[str, float]:
        keys = dict.fromkeys(key for line in lines for key in line[name])
        return {key: middle([line[name].get(key, 0.0) for line in lines]) for key in keys}

    return Measured(
        case.ranks,
        case.members,
        seconds=[line["seconds"] for line in lines],
        verbs=column("verbs", statistics.median),
        calls=column("calls", statistics.fmean),
        traffic=column("traffic", statistics.fmean),
    )


def _is_finished(folder: Path, case: Case) -> bool:
    if not folder.exists():
        return False
    record = Record.open(folder)
    return len(record.rounds()) == case.config.run.rounds and record.newest()[0] is not None


def _refuse_another_run(folder: Path, case: Case) -> None:
    if folder.exists() and (
        not (folder / "config.toml").exists() or Record.open(folder).config != case.config
    ):
        raise UserError(
            f"{folder} is another run than the one that is asked for: choose another --out"
        )


def _train(case: Case, folder: Path, say: Callable[[str], None]) -> None:
    if folder.exists():  # stopped on its way, so that its times are of two starts
        shutil.rmtree(folder)
    settings = folder.parent / f"{case.ranks}-ranks.toml"
    folder.parent.mkdir(parents=True, exist_ok=True)
    disk.write_text(settings, configs.to_toml(case.config))
    say(
        f"{folder}: {case.members} members on {case.ranks} {'rank' if case.ranks == 1 else 'ranks'}"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "remuda", "train", str(settings), "--out", str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that a terminal's Ctrl-C comes here alone, and is passed on once
    )
    try:
        _, complaints = process.communicate()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGTERM)
        process.communicate()
        raise Interrupted(
            "stopped; the same remuda scaling goes on with the runs that are missing"
        ) from None
    if process.returncode:
        reason = " ".join(complaints.split()).removeprefix("remuda: ")
        raise UserError(
            f"{folder} did not come to its end: {reason or f'status {process.returncode}'}"
        )
