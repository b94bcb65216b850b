"""Measure how much faster a run is on unequal hosts if members move to the faster one.

    python benchmarks/placement.py [--members 16] [--slow 3] [--rounds 60] [--repeats 2]

Two ranks train the same herd of GANs. The script stops and continues the process of rank 1 fifty
times a second, so that it runs only a third of the time (``--slow 3``), like a host of a third of
the speed. It trains with ``engine.balance=false`` and ``true`` in turn, and prints the rounds per
second in the last third of each run, and over the whole run from the second round on, including the
move. At the end it prints the ratios of the medians: about 1.9 on two idle cores.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PERIOD = 0.02  # seconds between two stops of the slow rank
SETTINGS = {
    "data.name": "digits",
    "networks.name": "mlp",
    "networks.hidden": 128,
    "strategy.name": "fl-gan",
    "strategy.steps_per_round": 5,
    "engine.device": "cpu",
    "engine.threads": 1,
    "run.checkpoint_every": 6,
    "run.sample_every": 1000000,
}


def slow_down(folder: Path, factor: float, process: subprocess.Popen[str]) -> None:
    """Let rank 1 run for only 1 / factor of the time until the run ends."""
    path, pid = folder / "status.json", None
    while pid is None and process.poll() is None:
        time.sleep(0.01)
        if path.exists():
            ranks = {rank["rank"]: rank["pid"] for rank in json.loads(path.read_text())["ranks"]}
            pid = ranks[1]
    try:
        while pid is not None and process.poll() is None:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(PERIOD * (1 - 1 / factor))
            os.kill(pid, signal.SIGCONT)
            time.sleep(PERIOD / factor)
    except ProcessLookupError:
        return


def train(folder: Path, options: argparse.Namespace, is_balanced: bool) -> tuple[float, float]:
    """Train once; return the rounds per second at the end of the run, and over the whole run."""
    settings = {
        **SETTINGS,
        "run.members": options.members,
        "run.rounds": options.rounds,
        "engine.balance": str(is_balanced).lower(),
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "remuda", "train", "fl-gan-digits", *words]
    process = subprocess.Popen(
        [*command, "--engine", "mpi", "--ranks", "2", "--out", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    )
    threading.Thread(target=slow_down, args=(folder, options.slow, process), daemon=True).start()
    try:
        arrivals = _arrivals(folder / "rounds.jsonl", options.rounds, process)
        printed, _ = process.communicate()
    finally:
        process.terminate()
    if process.returncode:
        sys.exit("the run failed")
    for line in printed.splitlines():
        if line.startswith("moving"):
            print(line, flush=True)
    third = options.rounds // 3
    lines = (folder / "rounds.jsonl").read_text().splitlines()
    seconds = [json.loads(line)["seconds"] for line in lines]
    return 1 / statistics.median(seconds[-third:]), _pace(arrivals)


def _arrivals(path: Path, rounds: int, process: subprocess.Popen[str]) -> dict[int, float]:
    """Return the time at which each number of rounds was first seen."""
    found: dict[int, float] = {}
    while process.poll() is None and rounds not in found:
        number = path.read_text().count("\n") if path.exists() else 0
        found.setdefault(number, time.perf_counter())
        time.sleep(0.005)
    return found


def _pace(arrivals: dict[int, float]) -> float:
    first, last = min(number for number in arrivals if number > 0), max(arrivals)
    return (last - first) / (arrivals[last] - arrivals[first])


def main() -> None:
    """Train with and without balance in turn, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("--slow", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    paces: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as place:
        for repeat in range(options.repeats):
            for is_balanced in (False, True):
                folder = Path(place) / f"{is_balanced}-{repeat}"
                end, whole = train(folder, options, is_balanced)
                paces[is_balanced].append((end, whole))
                name = f"engine.balance={str(is_balanced).lower()}"
                print(f"{name}: {end:.2f} rounds/s at the end, {whole:.2f} overall", flush=True)
    for i, name in enumerate(("at the end", "overall")):
        equal, balanced = (
            statistics.median(pace[i] for pace in paces[is_balanced])
            for is_balanced in (False, True)
        )
        print(f"{name}: {balanced / equal:.2f} times the pace of equal spans")


if __name__ == "__main__":
    main()
