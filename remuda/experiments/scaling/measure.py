"""Run the cases of a scaling experiment as a user would, and read the times of their rounds."""

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
from remuda.record import Reader, Record
from remuda.system import disk
from remuda.system.text import Notify, count


@dataclass(frozen=True)
class Measured:
    """The rounds of all repeats with the same number of ranks.

    The first round of each run is left out, because it includes the start-up. All ranks start a
    round together. Rank 0 measures its time: it ends when rank 0 has received the losses of all
    members, so it is the time of the slowest rank.
    """

    ranks: int
    members: int
    seconds: list[float]
    verbs: dict[str, float]  # median seconds per round on rank 0, including waiting
    calls: dict[str, float]  # mean per round, because not every round uses every verb
    traffic: dict[str, float]  # mean bytes per round, by verb and direction
    updates: int  # generator updates of a member per round

    @property
    def median(self) -> float:
        """Seconds of the median round."""
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        """Seconds of the fastest round."""
        return min(self.seconds)

    @property
    def rest(self) -> float:
        """Seconds of a median round outside the verbs."""
        return max(0.0, self.median - sum(self.verbs.values()))

    @property
    def bytes(self) -> float:
        """Bytes that a round sends, summed over all verbs."""
        return sum(self.traffic.values())


def measure(
    cases: Sequence[Case], repeats: int, out: Path, notify: Notify
) -> tuple[list[Measured], float | None]:
    """Run every case ``repeats`` times. Return its rounds, and the load before the first run.

    The order of the cases alternates, so that other load on the machine affects all of them.
    Finished runs are kept. If all runs were finished before, the load is None.
    """
    if repeats < 1:
        raise UserError(f"--repeats must be at least 1, not {repeats}")
    plan = {
        case.ranks: [out / f"{case.ranks}-ranks-{i + 1}" for i in range(repeats)] for case in cases
    }
    for case in cases:  # check all folders before hours of training
        for folder in plan[case.ranks]:
            _refuse_another_run(folder, case)
    load = None
    for i in range(repeats):
        for case in cases if i % 2 == 0 else reversed(cases):
            folder = plan[case.ranks][i]
            if _is_finished(folder, case):
                notify(f"{folder} is finished")
                continue
            load = os.getloadavg()[0] if load is None else load
            _train(case, folder, notify)
    found = [summary(case, map(_rounds, plan[case.ranks])) for case in cases]
    return found, load


def summary(case: Case, runs: Iterable[list[dict[str, Any]]]) -> Measured:
    """Summarise the lines of ``rounds.jsonl`` of several runs."""
    lines = [line for rounds in runs for line in rounds[1:]]

    def column(name: str, average: Callable[[list[float]], float]) -> dict[str, float]:
        keys = dict.fromkeys(key for line in lines for key in line[name])
        return {key: average([line[name].get(key, 0.0) for line in lines]) for key in keys}

    strategy, last = case.config.strategy, lines[-1]
    batches = last["images"] // (last["round"] * case.members * strategy.batch_size)
    return Measured(
        case.ranks,
        case.members,
        seconds=[line["seconds"] for line in lines],
        verbs=column("verbs", statistics.median),
        calls=column("calls", statistics.fmean),
        traffic=column("traffic", statistics.fmean),
        updates=strategy.steps_in(batches),
    )


def _rounds(folder: Path) -> list[dict[str, Any]]:
    return Reader.open(folder).rounds()


def _is_finished(folder: Path, case: Case) -> bool:
    if not folder.exists():
        return False
    reader = Reader.open(folder)
    return reader.num_rounds() == case.config.run.rounds and reader.newest()[0] is not None


def _refuse_another_run(folder: Path, case: Case) -> None:
    """Raise if the folder exists and is not a run with the settings of this case."""
    if not folder.exists():
        return
    is_run = (folder / "config.toml").exists()
    if not is_run:
        raise UserError(f"{folder} is not a run: choose another --out")
    wanted = configs.comparable(configs.to_dict(case.config))
    if Record.open(folder).comparable != wanted:
        raise UserError(f"{folder} contains a run with different settings: choose another --out")


def _train(case: Case, folder: Path, notify: Notify) -> None:
    if folder.exists():
        # The run was interrupted. If it resumed, its rounds would include a second start-up.
        shutil.rmtree(folder)
    settings = folder.parent / f"{case.ranks}-ranks.toml"
    folder.parent.mkdir(parents=True, exist_ok=True)
    disk.write_text(settings, configs.to_toml(case.config))
    notify(f"{folder}: {count(case.members, 'member')} on {count(case.ranks, 'rank')}")
    process = subprocess.Popen(
        [sys.executable, "-m", "remuda", "train", str(settings), "--out", str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C reaches only this process, which passes it on
    )
    try:
        _, errors = process.communicate()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGTERM)
        process.communicate()
        raise Interrupted(
            "stopped; to measure the missing cases, run the same command again"
        ) from None
    if process.returncode:
        reason = " ".join(errors.split()).removeprefix("remuda: ")
        raise UserError(f"{folder} did not finish: {reason or f'status {process.returncode}'}")
