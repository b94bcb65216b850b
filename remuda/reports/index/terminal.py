"""List the runs of a folder on a terminal."""

import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from remuda.errors import UserError
from remuda.reports.index.summary import DAMAGED, Cache, Summary
from remuda.system import look
from remuda.system.text import count

SECONDS = 2.0  # between two updates
STYLES = {"running": "bold", "killed": look.ERROR, DAMAGED: look.ERROR}


def show(folder: Path, console: Console) -> None:
    """Print a line for every run in a folder."""
    console.print(render(folder, _read(folder, Cache())))


def follow(folder: Path, console: Console) -> None:
    """Print the runs again and again, until none is training or the user presses Ctrl-C."""
    cache = Cache()
    runs = _read(folder, cache)
    with (
        suppress(KeyboardInterrupt),
        Live(console=console, auto_refresh=False, transient=True) as live,
    ):
        while any(run.state == "running" for run in runs):
            live.update(render(folder, runs), refresh=True)
            time.sleep(SECONDS)
            runs = _read(folder, cache)
    console.print(render(folder, _read(folder, cache)))


def _read(folder: Path, cache: Cache) -> list[Summary]:
    """Return the runs, those that are training first."""
    runs = cache.summaries(folder)
    if not runs:
        raise UserError(
            f"{folder} is not a run of remuda, because it has no config.toml, and it contains no "
            "runs: remuda list shows the runs in ./runs"
        )
    return sorted(runs, key=lambda run: run.state != "running")


def render(folder: Path, runs: list[Summary]) -> RenderableType:
    """Return a table of the runs, with the remarks about damaged ones below it."""
    states = Counter(run.state for run in runs)
    listed = ", ".join(f"{number:,} {state}" for state, number in states.most_common())
    titles = ["run", "state", "round", "time left", "best score so far"]
    rows = [_cells(run) for run in runs]
    shown = [j for j in range(len(titles)) if any(row[j] for row in rows)]
    table = look.table(*(titles[j] for j in shown), right=("round",))
    for column in table.columns:
        column.overflow = "fold"
        column.no_wrap = column.header in ("state", "round", "time left")
    for run, row in zip(runs, rows, strict=True):
        table.add_row(*(Text(row[j]) for j in shown), style=STYLES.get(run.state, ""))
    remarks = [
        f"{run.name}: {text}" for run in runs if run.state == DAMAGED for text in run.remarks
    ]
    return Group(Text(f"{folder}: {count(len(runs), 'run')}, {listed}"), table, *map(Text, remarks))


def _cells(run: Summary) -> list[str]:
    done = f"{run.reached:,} of {run.planned:,}" if run.planned else ""
    left = "" if run.left is None else look.time(run.left)
    return [run.name, run.state, done, left, _best(run)]


def _best(run: Summary) -> str:
    if run.chosen is None or run.chosen.best is None:
        return ""
    best = run.chosen.best
    return f"{run.chosen.name} {look.number(best.value)} (round {best.round:,})"
