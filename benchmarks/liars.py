"""Measure the FID of MD-GAN on MNIST if some workers lie, or if their data are uneven.

    python benchmarks/liars.py [--liars 0 1 3 4] [--lies sign scaled noise collude constant labels]
                               [--aggregates mean median ...] [--seeds 0] [--rounds 25]
    python benchmarks/liars.py --partitions dirichlet class --forgive none f2u f2a

Both commands accept --recipe NAME (md-gan-mnist-cnn for the CNN), --members 10, --processes 2,
--device cpu, --n 10000 (images for the FID), --keep FOLDER and --set KEY=VALUE. All workers give
feedback on the same batch (k = 1). A round of the recipes for MNIST has 200 iterations.

The script trains all runs, several at a time, with one thread each. It prints a line per run, then
a table in Markdown: a row per attack or partition, a column per rule by which the server combines
feedback, and in each cell the FID with the recipe's protocol after the last round (mean and range
over the seeds). A run that diverges has no FID. Runs in --keep that already exist are resumed. Krum
withstands at most three liars of ten.
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

AGGREGATES = ["mean", "median", "trimmed-mean", "krum", "geometric-median", "norm-clipped"]
LIES = ["sign", "scaled", "noise", "collude", "constant", "labels"]
SETTINGS = {
    "strategy.num_fake_batches": 1,
    "run.sample_every": 1000,
    "scores.every": 0,
    "engine.threads": 1,
}


class Case(NamedTuple):
    """One run: its row and its column in the table, its seed, and its settings."""

    row: str
    column: str
    seed: int
    settings: dict[str, object]


def attacks(options: argparse.Namespace) -> dict[str, dict[str, object]]:
    """Return the rows of the table of lies, with their settings."""
    rows: dict[str, dict[str, object]] = {}
    for number in options.liars:
        if number == 0:
            rows["0 liars"] = {}
            continue
        for lie in options.lies:
            name = f"{number} {'liar' if number == 1 else 'liars'}, {lie}"
            rows[name] = {"strategy.liars": number, "strategy.lie": lie}
    return rows


def cases(options: argparse.Namespace) -> list[Case]:
    """Return all runs."""
    if options.partitions:
        rows = {
            name: {"data.partition": name, "data.alpha": options.alpha}
            if name == "dirichlet"
            else {"data.partition": name}
            for name in options.partitions
        }
        columns = {name: {"strategy.forgive": name} for name in options.forgive}
    else:
        rows = attacks(options)
        columns = {name: {"strategy.aggregate": name} for name in options.aggregates}
    return [
        Case(row, column, seed, rows[row] | columns[column])
        for seed, row, column in product(options.seeds, rows, columns)
    ]


def remuda(*words: str) -> bool:
    """Run a command of remuda, and return whether it succeeded."""
    command = [sys.executable, "-m", "remuda", *words]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode and "became nan" not in ended.stderr:
        raise RuntimeError(ended.stderr)
    return ended.returncode == 0


def measure(options: argparse.Namespace, place: Path, case: Case) -> float | None:
    """Train and score one run; return its FID, or None if it diverged."""
    name = f"{case.row}-{case.column}-seed-{case.seed}".replace(", ", "-").replace(" ", "-")
    folder, rounds = place / name, ["--rounds", str(options.rounds)]
    if folder.exists():
        is_trained = remuda("resume", str(folder), *rounds)
    else:
        settings = SETTINGS | {"engine.device": options.device} | case.settings
        changes = [f"{key}={value}" for key, value in settings.items()] + options.set
        words = [word for change in changes for word in ("--set", change)]
        words += ["--members", str(options.members), "--seed", str(case.seed), *rounds]
        is_trained = remuda("train", options.recipe, *words, "--out", str(folder))
    fid = None
    if is_trained:
        remuda("score", str(folder), "--n", str(options.n), "--with", "fid")
        fid = json.loads((folder / "scores.jsonl").read_text().splitlines()[-1])["value"]
    print(f"{name}: {text([fid])}", flush=True)
    return fid


def text(fids: list[float | None]) -> str:
    """Return the content of a cell of the table."""
    found = [fid for fid in fids if fid is not None]
    if len(found) < len(fids):
        return "diverged"
    mean = f"{sum(found) / len(found):.1f}"
    return mean if len(found) == 1 else f"{mean} ({min(found):.1f} to {max(found):.1f})"


def table(runs: list[Case], fids: list[float | None]) -> str:
    """Return the table in Markdown."""
    cells: dict[tuple[str, str], list[float | None]] = {}
    for case, fid in zip(runs, fids, strict=True):
        cells.setdefault((case.row, case.column), []).append(fid)
    columns = list(dict.fromkeys(case.column for case in runs))
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row in dict.fromkeys(case.row for case in runs):
        values = " | ".join(text(cells[row, column]) for column in columns)
        lines.append(f"| {row} | {values} |")
    return "\n".join(lines)


def main() -> None:
    """Measure all cases, several at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--liars", type=int, nargs="+", default=[0, 1, 3, 4])
    parser.add_argument("--lies", nargs="+", default=LIES, choices=LIES)
    parser.add_argument("--aggregates", nargs="+", default=AGGREGATES, choices=AGGREGATES)
    parser.add_argument("--partitions", nargs="+", default=[], metavar="PARTITION")
    parser.add_argument("--alpha", type=float, default=0.1, help="data.alpha for dirichlet")
    parser.add_argument("--forgive", nargs="+", default=["none", "f2u", "f2a"])
    parser.add_argument("--recipe", default="md-gan-mnist-mlp")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--n", type=int, default=10_000, help="images for the FID")
    parser.add_argument("--keep", type=Path, help="a folder for the runs")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    runs = cases(options)
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(options.processes) as pool:
        measured = list(pool.map(partial(measure, options, options.keep or Path(place)), runs))
    print(table(runs, measured))


if __name__ == "__main__":
    main()
