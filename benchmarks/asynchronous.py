"""Compare synchronous and asynchronous training on ten ranks, one of which is five times slower.

    python benchmarks/asynchronous.py [--strategies md-gan cellular] [--seconds 75] [--repeats 2]
                                      [--quota 10] [--root-quota 50] [--slow 5] [--keep FOLDER]

Every rank hosts one member and acts as a machine of its own: it may use only --quota percent of
one core, the last rank a fifth of that (--slow 5). Control groups enforce the quotas, so the script
needs root on Linux with the cpu controller of cgroup v1. It sets them when the first round is
complete; both modes train this round without quotas.

Rank 0 gets --root-quota percent with md-gan, in both modes, because it is server and worker; with
cellular, where there is no server, it gets the same as the other fast ranks. The sum of all quotas
must be available: on a busy machine, the asynchronous mode loses more, because only there all ranks
compute all the time.

The script trains with the synchronous and the asynchronous strategy in turn, each for --seconds of
wall time after the quotas are set. It prints a row per run:

    updates/s   md-gan: workers' feedback messages that the server applies; cellular: iterations of
                single cells. Wall time between the ends of the second and of the last round, which
                includes everything between two rounds
    others/s    the same without those of rank 0, whose worker is faster than the others if it has
                a larger quota and does not wait
    steps/s     md-gan: updates of the generator; a synchronous one applies ten messages at once
    FID         of the last complete round, without quotas: 2000 images, LeNet features
    turns       between these two ends: of rank 0, of a median fast rank, of the slow rank
    cpu         percent of a core: of rank 0, of a median fast rank, of the slow rank

At the end, it prints the ratios of the medians. The best possible ratio of updates is
(9 + 1 / 5) / (10 / 5) = 4.6, also without rank 0; the goal is at least 4.
"""

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

GROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD = 10_000  # microseconds in which a rank may use its percentage; longer if that is too short
SHORTEST = 1_000  # microseconds; Linux rejects shorter quotas
NUM_RANKS = 10
PATIENCE = 240  # seconds for a start or an end
FIELDS = ["updates/s", "others/s", "steps/s", "FID"]
FIELDS += ["turns 0", "fast", "slow", "cpu 0", "fast", "slow"]
SETTINGS = {
    "engine.device": "cpu",
    "engine.threads": 1,
    "engine.balance": "false",
    "run.rounds": 1000000,
    "run.sample_every": 1000000,
    "run.checkpoint_minutes": 60,
}
STRATEGIES = {
    "md-gan": {
        "run.members": NUM_RANKS,
        "strategy.batch_size": 50,
        "strategy.discriminator_steps": 5,
        "strategy.steps_per_round": 20,
    },
    "cellular": {
        "strategy.height": 2,
        "strategy.width": 5,
        "strategy.steps_per_round": 20,
    },
}


class Found(NamedTuple):
    """The numbers of one run."""

    updates: float  # per second
    others: float  # per second, without rank 0
    steps: float  # per second
    fid: float
    turns: tuple[float, float, float]  # of rank 0, a median fast rank, and the slow rank
    cpu: tuple[float, float, float]  # percent of a core


class Quotas:
    """Control groups, one per rank."""

    def __init__(self, percents: list[float]):
        self.percents = percents
        self.folders = [GROUPS / f"remuda-bench-{os.getpid()}-{i}" for i in range(len(percents))]

    def limit(self, pids: list[int]) -> None:
        """Move each process with all its threads to its group, and to one core.

        On two cores, a thread might wait for a lock of another one that has used up the quota.
        """
        cores = sorted(os.sched_getaffinity(0))
        for i, (folder, percent) in enumerate(zip(self.folders, self.percents, strict=True)):
            period = max(PERIOD, math.ceil(SHORTEST * 100 / percent))
            (folder / "cpu.cfs_period_us").write_text(str(period))
            (folder / "cpu.cfs_quota_us").write_text(str(math.ceil(period * percent / 100)))
            # The weight matters if other processes use the cores too.
            (folder / "cpu.shares").write_text(str(round(1024 * percent / self.percents[1])))
            (folder / "cgroup.procs").write_text(str(pids[i]))
            for thread in Path(f"/proc/{pids[i]}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {cores[i % len(cores)]})

    def lift(self) -> None:
        """Let all processes run without limits."""
        for folder in self.folders:
            (folder / "cpu.cfs_quota_us").write_text("-1")

    @contextmanager
    def created(self) -> Iterator[None]:
        """Create the groups, and remove them at the end."""
        try:
            for folder in self.folders:
                folder.mkdir()
            yield
        finally:
            for folder in self.folders:
                if folder.exists():
                    folder.rmdir()


class Run:
    """A run on ten ranks, whose rounds are timed from outside."""

    def __init__(self, folder: Path, strategy: str, name: str):
        self.folder, self.is_asynchronous = folder, name != strategy
        settings = {**SETTINGS, **STRATEGIES[strategy], "strategy.name": name}
        # A synchronous round has one update per member and iteration.
        self.num_iterations = settings["strategy.steps_per_round"] if strategy == "md-gan" else 1
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        command = [sys.executable, "-m", "remuda", "train", f"{strategy}-digits", *words]
        self.process = subprocess.Popen(
            [*command, "--engine", "mpi", "--ranks", str(NUM_RANKS), "--out", str(folder)],
            stdout=subprocess.DEVNULL,
        )

    def rounds(self) -> list[dict]:
        """Return the complete rounds."""
        path = self.folder / "rounds.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def pids(self) -> list[int]:
        """Return the processes of the ranks."""
        ranks = json.loads((self.folder / "status.json").read_text())["ranks"]
        return [rank["pid"] for rank in sorted(ranks, key=lambda rank: rank["rank"])]

    def wait(self, num_rounds: int, until: float) -> float:
        """Wait for the end of a round, at most until a time; return when it was seen."""
        while len(self.rounds()) < num_rounds and time.perf_counter() < until:
            if self.process.poll() is not None:
                sys.exit("the run failed")
            time.sleep(0.005)
        return time.perf_counter()

    def turns(self, rounds: list[dict]) -> list[float]:
        """Return how many turns each member has made in some rounds."""
        if self.is_asynchronous:
            return [sum(turns) for turns in zip(*(line["turns"] for line in rounds), strict=True)]
        return [float(len(rounds) * self.num_iterations)] * NUM_RANKS

    def score(self) -> float:
        """Return the FID of the last state."""
        command = [sys.executable, "-m", "remuda", "score", str(self.folder)]
        subprocess.run(
            [*command, "--n", "2000", "--with", "fid"], check=True, stdout=subprocess.DEVNULL
        )
        lines = (self.folder / "scores.jsonl").read_text().splitlines()
        return json.loads(lines[-1])["value"]


def cpu_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def three(numbers: list[float]) -> tuple[float, float, float]:
    """Return the number of rank 0, the median of the fast ranks, and that of the slow rank."""
    return numbers[0], statistics.median(numbers[1:-1]), numbers[-1]


def measure(run: Run, quotas: Quotas, seconds: float) -> Found:
    """Measure a run under quotas for some seconds after its first round."""
    run.wait(1, time.perf_counter() + PATIENCE)
    pids = run.pids()
    quotas.limit(pids)
    until = time.perf_counter() + seconds
    used = [cpu_seconds(pid) for pid in pids]
    began = last = run.wait(2, until)
    first = number = len(run.rounds())
    while True:
        now = run.wait(number + 1, until)
        if len(run.rounds()) == number:
            break
        number, last = len(run.rounds()), now
    shares = [100 * (cpu_seconds(p) - u) / seconds for p, u in zip(pids, used, strict=True)]
    turns = run.turns(run.rounds()[first:number])
    run.process.send_signal(signal.SIGTERM)  # the run saves its state
    quotas.lift()
    run.process.wait(PATIENCE)
    assert number > first, "no round was complete in this time"
    num_updates = sum(turns) if run.is_asynchronous else turns[0]
    elapsed = last - began
    return Found(
        updates=sum(turns) / elapsed,
        others=sum(turns[1:]) / elapsed,
        steps=num_updates / elapsed,
        fid=run.score(),
        turns=three(turns),
        cpu=three(shares),
    )


def row(name: str, found: Found) -> str:
    """Return a row of the table."""
    *rates, turns, cpu = found
    cells = [f"{rate:9.2f}" for rate in rates]
    cells += [f"{each:9.0f}" for each in turns] + [f"{each:9.1f}" for each in cpu]
    return f"{name:16}{' '.join(cells)}"


def compare(strategy: str, options: argparse.Namespace, place: Path) -> None:
    """Train with both modes in turn, and print a table."""
    fast = options.quota
    root = options.root_quota if strategy == "md-gan" else fast
    percents = [root, *[fast] * (NUM_RANKS - 2), fast / options.slow]
    print(f"{'':16}{' '.join(f'{field:>9}' for field in FIELDS)}", flush=True)
    results: dict[str, list[Found]] = {strategy: [], f"{strategy}-async": []}
    for repeat in range(options.repeats):
        for name, found in results.items():
            quotas, run = Quotas(percents), Run(place / f"{name}-{repeat}", strategy, name)
            with quotas.created():
                try:
                    found.append(measure(run, quotas, options.seconds))
                finally:
                    run.process.terminate()
                    run.process.wait(PATIENCE)
            print(row(name, found[-1]), flush=True)
    waiting, racing = (
        [statistics.median(rates) for rates in zip(*(each[:4] for each in found), strict=True)]
        for found in results.values()
    )
    updates, others, steps = (racing[i] / waiting[i] for i in range(3))
    print(
        f"asynchronous: {updates:.2f} times the updates per second ({others:.2f} without rank 0), "
        f"{steps:.1f} times the steps, FID {racing[3]:.2f} instead of {waiting[3]:.2f}",
        flush=True,
    )


def main() -> None:
    """Compare the modes of each strategy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=list(STRATEGIES))
    parser.add_argument("--seconds", type=float, default=75.0)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--quota", type=float, default=10.0, help="percent of a core")
    parser.add_argument("--root-quota", type=float, default=50.0, help="percent of a core")
    parser.add_argument("--slow", type=float, default=5.0)
    parser.add_argument("--keep", type=Path, help="an empty folder for the runs")
    options = parser.parse_args()
    if not os.access(GROUPS / "cpu.cfs_quota_us", os.W_OK):
        print(f"This benchmark limits its ranks with cgroup v1, but cannot write to {GROUPS}.")
        sys.exit(2)
    with tempfile.TemporaryDirectory() as place:
        for strategy in options.strategies:
            compare(strategy, options, options.keep or Path(place))


if __name__ == "__main__":
    main()
