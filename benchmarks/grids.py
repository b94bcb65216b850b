"""Train and score a grid of runs, several at a time, and print their FIDs as a table."""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

SETTINGS = {"run.sample_every": 1000, "scores.every": 0, "engine.threads": 1}


class Case(NamedTuple):
    """One run: its row and its column in the table, its seed, and its settings."""

    row: str
    column: str
    seed: int
    settings: dict[str, object]


def add_options(parser: argparse.ArgumentParser, recipe: str, rounds: int) -> None:
    """Add the options that all grids have, with the default recipe and number of rounds."""
    parser.add_argument("--recipe", default=recipe)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--n", type=int, default=10_000, help="images for the FID")
    parser.add_argument("--keep", type=Path, help="a folder for the runs")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")


def remuda(*words: str) -> bool:
    """Run a command of remuda, and return whether it succeeded."""
    command = [sys.executable, "-m", "remuda", *words]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode and "became nan" not in ended.stderr:
        raise RuntimeError(ended.stderr)
    return ended.returncode == 0


def measure(options: argparse.Namespace, place: Path, case: Case) -> float | None:
    """Train and score one run; return its FID, or None if it diverged."""
    name = "-".join(re.findall(r"[\w.]+", f"{case.row} {case.column} seed {case.seed}"))
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


def measure_all(options: argparse.Namespace, cases: list[Case]) -> list[float | None]:
    """Train and score all runs, several at a time; return their FIDs."""
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(options.processes) as pool:
        return list(pool.map(partial(measure, options, options.keep or Path(place)), cases))


def cells_of(cases: list[Case], fids: list[float | None]) -> dict[str, dict[str, list]]:
    """Return the FIDs of all seeds, by row and column."""
    cells: dict[str, dict[str, list]] = {}
    for case, fid in zip(cases, fids, strict=True):
        cells.setdefault(case.row, {}).setdefault(case.column, []).append(fid)
    return cells


def text(fids: list[float | None]) -> str:
    """Return the content of a cell of the table."""
    found = [fid for fid in fids if fid is not None]
    if len(found) < len(fids):
        return "diverged"
    if not found:
        return ""
    mean = f"{sum(found) / len(found):.1f}"
    return mean if len(found) == 1 else f"{mean} ({min(found):.1f} to {max(found):.1f})"


def table(cells: dict[str, dict[str, list]]) -> str:
    """Return the table in Markdown."""
    columns = list(dict.fromkeys(column for row in cells.values() for column in row))
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row, found in cells.items():
        values = " | ".join(text(found.get(column, [])) for column in columns)
        lines.append(f"| {row} | {values} |")
    return "\n".join(lines)
