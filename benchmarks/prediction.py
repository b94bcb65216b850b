"""Compare the predictions of `remuda bench` with whole runs.

    python benchmarks/prediction.py [RECIPE ...] [--repeats 3] [--device cpu] [--set run.rounds=20]

The default is one short recipe of every strategy. For each recipe, the script alternately predicts
and trains in new processes, because the speed of a machine varies. Every process has an empty cache
of compiled programs. The table shows the medians, in seconds; the goal is a ratio (predicted
divided by real) between 0.8 and 1.2.

On a busy machine, add --processor-time and set OMP_NUM_THREADS=1. Both sides then count the seconds
that a processor worked for the run, which is the wall time on a quiet machine.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPES = [
    "standalone-digits",
    "class-parallel-digits",
    "cellular-digits",
    "md-gan-digits",
    "fl-gan-digits",
]
PREDICT = """
import sys, time, types
from remuda import recipes
from remuda.experiments import bench, timing
from remuda.system import processes
clock, *words = sys.argv[1:]
process = processes.age()
if clock == "processor":
    bench.time = timing.time = types.SimpleNamespace(perf_counter=time.process_time)
    process = time.process_time()
print(bench.measure(recipes.recipe(*words), process=process).total)
"""


def run_alone(words: list[str], folder: Path, clock: str) -> tuple[float, str]:
    """Run Python with empty caches of compiled programs; return its seconds and output."""
    with tempfile.TemporaryDirectory() as caches:
        names = "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH"
        environment = {**os.environ, **{name: f"{caches}/{name}" for name in names}}
        began = now(clock)
        command = [sys.executable, *words]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        seconds = now(clock) - began
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return seconds, done.stdout


def now(clock: str) -> float:
    """Return the wall time, or the processor time of all processes that have ended."""
    if clock == "wall":
        return time.perf_counter()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def predict(recipe: str, settings: list[str], folder: Path, clock: str) -> float:
    """Return the predicted seconds of a run."""
    _, printed = run_alone(["-c", PREDICT, clock, recipe, *settings], folder, clock)
    return float(printed.split()[-1])


def train(recipe: str, settings: list[str], folder: Path, clock: str) -> float:
    """Train, and return the seconds of the run."""
    with tempfile.TemporaryDirectory(dir=folder) as out:
        flags = [word for setting in settings for word in ("--set", setting)]
        command = ["-m", "remuda", "train", recipe, "--out", f"{out}/run", *flags]
        return run_alone(command, folder, clock)[0]


def main() -> None:
    """Print a table with one line per recipe."""
    parser = argparse.ArgumentParser(description="Compare predictions with whole runs.")
    parser.add_argument("recipes", nargs="*", default=RECIPES, metavar="RECIPE")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="A.B=C")
    parser.add_argument("--processor-time", action="store_true")
    asked = parser.parse_args()
    settings = [*asked.settings, f'engine.device="{asked.device}"']
    clock = "processor" if asked.processor_time else "wall"
    print(f"{'recipe':30} {'predicted':>9} {'real':>8} {'ratio':>6}  ratios", flush=True)
    for recipe in asked.recipes:
        with tempfile.TemporaryDirectory(prefix=".prediction-", dir=Path.cwd()) as scratch:
            each = recipe, settings, Path(scratch), clock
            pairs = [(predict(*each), train(*each)) for _ in range(asked.repeats)]
        predicted, real = (statistics.median(side) for side in zip(*pairs, strict=True))
        ratios = [a / b for a, b in pairs]
        ratio, shown = statistics.median(ratios), " ".join(f"{each:.2f}" for each in ratios)
        print(f"{recipe:30} {predicted:9.1f} {real:8.1f} {ratio:6.2f}  {shown}", flush=True)


if __name__ == "__main__":
    main()
