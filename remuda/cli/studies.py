"""Commands that train several runs to study them: repeat, bench and scaling."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from remuda.cli.common import (
    DataFolder,
    Device,
    Recipe,
    Setting,
    Trust,
    app,
    assignments,
    console,
    new_progress,
    say,
)
from remuda.cli.completion import complete_recipe
from remuda.cli.hints import refuse_run
from remuda.errors import UserError
from remuda.system import look


@app.command("repeat")
def repeat_recipe(
    recipe: Recipe,
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 10,
    first_seed: Annotated[int, typer.Option(help="First seed; the others follow it.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the runs; default: runs/RECIPE-repeats."),
    ] = None,
    device: Device = None,
    data: DataFolder = None,
    settings: Setting = None,
    trust: Trust = False,
) -> None:
    """Train a recipe with several seeds and compare the runs; run it again to resume."""
    from remuda import recipes
    from remuda.experiments.repeats import repeat
    from remuda.reports.compare import compare

    flags = assignments({"engine.device": device, "data.path": data})
    config = recipes.recipe(recipe, *(settings or []), *flags, trust=trust)
    folder = out or Path("runs") / f"{recipes.read(recipe)[0]}-repeats"
    repeats = repeat(config, folder, seeds, first_seed, new_progress)
    if repeats.finished:
        typer.echo(compare(repeats.finished).render(), nl=False)
    repeats.refuse_failures()


@app.command("bench")
def show_expectations(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="[RECIPE|FILE.toml]",
            help="Default: the recipes for digits.",
            autocompletion=complete_recipe,
            callback=lambda recipe: recipe and refuse_run(recipe),
        ),
    ] = None,
    device: Device = None,
    data: DataFolder = None,
    settings: Setting = None,
    trust: Trust = False,
) -> None:
    """Run a few rounds here, and predict the time and memory of a whole run."""
    from remuda import recipes
    from remuda.experiments.bench import measure
    from remuda.experiments.expectation import describe
    from remuda.system import processes

    if recipe is None:
        return _bench_each([name for name in recipes.names() if name.endswith("-digits")])
    flags = assignments({"engine.device": device, "data.path": data})
    config = recipes.recipe(recipe, *(settings or []), *flags, trust=trust)
    say(f"{recipe} {describe(measure(config, say, processes.age()))}")


def _bench_each(names: list[str]) -> None:
    """Run the command for each recipe in its own process, because starting is measured too."""
    for name in names:
        command = [sys.executable, "-m", "remuda", "bench", name, *sys.argv[2:]]
        if status := subprocess.run(command, check=False).returncode:
            sys.exit(status)


@app.command("scaling")
def show_scaling(
    recipe: Recipe,
    ranks: Annotated[
        str, typer.Option(metavar="1,A,B", help="Numbers of ranks; 1 must be one of them.")
    ] = "1,2",
    strong: Annotated[
        bool, typer.Option("--strong", help="Train the same herd on more ranks (default).")
    ] = False,
    weak: Annotated[bool, typer.Option("--weak", help="Grow the herd with the ranks.")] = False,
    repeats: Annotated[int, typer.Option(help="Runs with each number of ranks.")] = 3,
    rounds: Annotated[int, typer.Option(help="Rounds of each run; the first is not timed.")] = 5,
    link: Annotated[
        str, typer.Option(metavar="RATE", help="Predict for hosts with such links, as 100mbit.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Default: runs/RECIPE-scaling-KIND.")
    ] = None,
    data: DataFolder = None,
    settings: Setting = None,
    trust: Trust = False,
) -> None:
    """Time a recipe on several numbers of ranks, and predict the time on more."""
    from remuda import recipes
    from remuda.experiments.scaling import read_ranks, scale

    if strong and weak:
        raise UserError("cannot combine --strong and --weak: run one after the other")
    flags = assignments({"data.path": data})
    config = recipes.recipe(recipe, *(settings or []), *flags, trust=trust)
    name, kind = recipes.read(recipe)[0], "weak" if weak else "strong"
    folder = out or Path("runs") / f"{name}-scaling-{kind}"
    found = scale(name, config, folder, read_ranks(ranks), weak, repeats, rounds, say, link)
    console.print(_table(found.header(), found.rows()))
    if found.predicted():
        say("\npredicted, not measured:")
        console.print(_table(found.predicted_header(), found.predicted_rows()))
    if found.compared_rows():
        say("\npredicted seconds per round (share of messages) if members averaged shared layers:")
        console.print(_table(found.compared_header(), found.compared_rows()))
    for text in ["", *found.notes(), f"figure: {folder / 'scaling.png'}"]:
        say(text)


def _table(header: Sequence[str], rows: list[list[str]]) -> Table:
    table = look.table(*header, right=header)
    for row in rows:
        table.add_row(*row)
    return table
