"""Measure how the age of feedback changes the FID of asynchronous MD-GAN on MNIST, on CPUs.

    python benchmarks/staleness.py [--ages 0 1 5 20] [--powers 0 0.5 1] [--seeds 0] [--rounds 130]
                                   [--processes 2] [--n 10000] [--keep FOLDER] [--set KEY=VALUE]

21 workers train the MLPs of the MD-GAN paper on ``stacked``. With M busy workers, the mean age is
M - 1 updates. A round has 420 updates of the generator, one per arrival. ``--powers`` are values
of strategy.staleness_power; 0 means that the learning rate does not depend on the age. An age of 0
needs no adapted rate, so it is trained only once per seed.

The script trains all runs, several at a time, with one thread each, and prints a row per run: the
planned age, the power, the seed, the mean age in arrivals.jsonl, and the FID against the test
images after the last round. Runs in --keep that already exist are resumed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

WORKERS = 21
SETTINGS = {
    "strategy.name": "md-gan-async",
    "run.members": WORKERS,
    "strategy.batch_size": 32,
    "strategy.steps_per_round": 20,
    # A discriminator has one turn while the generator makes 21 updates, so it learns faster.
    "strategy.discriminator_steps": 4,
    "strategy.discriminator_lr": 1e-3,
    "run.sample_every": 50,
    "scores.every": 0,
    "engine.device": "cpu",
    "engine.threads": 1,
}


class Case(NamedTuple):
    """The settings of one run."""

    age: int
    power: float
    seed: int


def cases(options: argparse.Namespace) -> list[Case]:
    """Return all runs, without repetitions of age 0."""
    found = [Case(*values) for values in product(options.ages, options.powers, options.seeds)]
    return [case for case in found if case.age or case.power == options.powers[0]]


def mean_age(folder: Path) -> float:
    """Return the mean number of updates between the sending of images and their feedback."""
    sent, ages = [0] * WORKERS, []
    for line in (folder / "arrivals.jsonl").read_text().splitlines():
        for member, target in json.loads(line)["arrivals"]:
            ages.append(len(ages) - sent[member])
            sent[target] = len(ages)
    return sum(ages) / len(ages)


def remuda(*words: str) -> None:
    """Run a command of remuda."""
    subprocess.run([sys.executable, "-m", "remuda", *words], check=True, stdout=subprocess.DEVNULL)


def measure(options: argparse.Namespace, place: Path, case: Case) -> str:
    """Train and score one run, and return a row of the table."""
    folder = place / f"age-{case.age}-power-{case.power}-seed-{case.seed}"
    settings = SETTINGS | {
        "strategy.busy_workers": case.age + 1,
        "strategy.staleness_power": case.power,
    }
    changes = [f"{key}={value}" for key, value in settings.items()] + options.set
    words = [word for change in changes for word in ("--set", change)]
    if folder.exists():
        remuda("resume", str(folder), "--rounds", str(options.rounds))
    else:
        words += ["--seed", str(case.seed), "--rounds", str(options.rounds)]
        remuda("train", "md-gan-mnist-mlp", *words, "--out", str(folder))
    remuda("score", str(folder), "--n", str(options.n), "--with", "fid")
    fid = json.loads((folder / "scores.jsonl").read_text().splitlines()[-1])["value"]
    row = f"{case.age:5} {case.power:6} {case.seed:5} {mean_age(folder):9.2f} {fid:9.2f}"
    print(row, flush=True)
    return row


def main() -> None:
    """Measure all cases, several at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ages", type=int, nargs="+", default=[0, 1, 5, 20])
    parser.add_argument("--powers", type=float, nargs="+", default=[0.0, 0.5, 1.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--rounds", type=int, default=130)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--n", type=int, default=10_000, help="images for the FID")
    parser.add_argument("--keep", type=Path, help="a folder for the runs")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    print("  age  power  seed  mean age       FID", flush=True)
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(options.processes) as pool:
        rows = pool.map(partial(measure, options, options.keep or Path(place)), cases(options))
        print("\n".join(["sorted:", *rows]))


if __name__ == "__main__":
    main()
