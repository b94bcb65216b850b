"""Measure how compressed messages change the traffic and the FID of MD-GAN on MNIST.

    python benchmarks/compression.py [--recipe md-gan-mnist-mlp] [--cases none int8 ...]
                                     [--seeds 0] [--rounds 50] [--processes 2] [--n 10000]
                                     [--device cpu] [--keep FOLDER] [--set KEY=VALUE]

The script trains all cases, several at a time, with one thread each. It prints a row per run: the
bytes of an average iteration, how many times fewer these are than without compression, and the FID
against the test images after the last round. Runs in --keep that already exist are resumed.
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

DOWN, UP, ACROSS = (f"strategy.compress_{way}" for way in ("down", "up", "across"))
FEEDBACK = {"strategy.error_feedback": "true"}
MIXED = {DOWN: "int4", ACROSS: "int8"}
CASES = {
    "none": {},
    "int16": {DOWN: "int16", UP: "int16", ACROSS: "int16"},
    "int8": {DOWN: "int8", UP: "int8", ACROSS: "int8"},
    "int4": {**MIXED, UP: "int4"},
    "sign": {**MIXED, UP: "sign"},
    "smallest": {DOWN: "int4", UP: "sign", ACROSS: "int4"},
    "int4-remembered": {**MIXED, UP: "int4", **FEEDBACK},
    "top-k": {**MIXED, UP: "top-k"},
    "top-k-remembered": {**MIXED, UP: "top-k", **FEEDBACK},
    "int8-top-k": {DOWN: "int8", UP: "top-k", ACROSS: "int8"},
}


def remuda(*words: str) -> None:
    """Run a command of remuda."""
    subprocess.run([sys.executable, "-m", "remuda", *words], check=True, stdout=subprocess.DEVNULL)


def train(options: argparse.Namespace, folder: Path, case: str, seed: int) -> None:
    """Train a run, or resume it if it exists."""
    if folder.exists():
        remuda("resume", str(folder), "--rounds", str(options.rounds))
        return
    settings = {
        **CASES[case],
        "scores.every": 0,
        "run.sample_every": options.rounds,
        "engine.device": options.device,
        "engine.threads": 1,
    }
    changes = [f"{key}={value}" for key, value in settings.items()] + options.set
    words = [word for change in changes for word in ("--set", change)]
    words += ["--seed", str(seed), "--rounds", str(options.rounds)]
    remuda("train", options.recipe, *words, "--out", str(folder))


def measure(options: argparse.Namespace, place: Path, run: tuple[str, int]) -> tuple[float, float]:
    """Train and score one run; return its bytes per iteration and its FID."""
    case, seed = run
    folder = place / f"{options.recipe}-{case}-seed-{seed}"
    train(options, folder, case, seed)
    remuda("score", str(folder), "--n", str(options.n), "--with", "fid", "--reference", "test")
    rounds = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    num_iterations = sum(line["calls"]["gather"] for line in rounds)
    num_bytes = sum(line["bytes"] for line in rounds) / num_iterations
    fid = json.loads((folder / "scores.jsonl").read_text().splitlines()[-1])["value"]
    print(f"finished: {case}, seed {seed}, FID {fid:.2f}", flush=True)
    return num_bytes, fid


def main() -> None:
    """Measure all cases, several at a time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipe", default="md-gan-mnist-mlp")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--n", type=int, default=10_000, help="images for the FID")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--keep", type=Path, help="a folder for the runs")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    if "none" not in options.cases:
        parser.error("--cases needs none, with which the others are compared")
    runs = list(product(options.cases, options.seeds))
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(options.processes) as pool:
        found = list(pool.map(partial(measure, options, options.keep or Path(place)), runs))
    plain = found[options.cases.index("none") * len(options.seeds)][0]
    print(f"{'case':18} seed  bytes/iteration  fewer    FID")
    for (case, seed), (num_bytes, fid) in zip(runs, found, strict=True):
        print(f"{case:18} {seed:4}  {num_bytes:15,.0f} {plain / num_bytes:5.2f}x {fid:6.2f}")


if __name__ == "__main__":
    main()
