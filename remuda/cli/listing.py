"""Commands that show what exists: list and show."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from remuda.cli.common import Recipe, app, console, say
from remuda.errors import UserError
from remuda.system import look, parts
from remuda.system.choices import Choices
from remuda.system.text import suggestion

# The recipes that the command shows by default, by purpose.
GROUPS: dict[str, dict[str, str]] = {
    "try first (a minute on a CPU)": {
        "class-parallel-digits": "one pair per class",
        "standalone-digits-conditional": "one pair with labels",
        "cellular-digits": "pairs that compete on a grid",
        "md-gan-digits": "one generator, data at five sites",
        "fl-gan-digits": "averaged pairs, data at five sites",
    },
    "good images (a GPU)": {
        "standalone-cifar10-resnet-conditional": "one residual pair with labels",
        "class-parallel-cifar10-resnet": "one residual pair per class",
        "standalone-cifar10-r3gan": "R3GAN",
    },
    "your own images (a GPU)": {
        "standalone-folder-64": "--set data.name=folder:PATH, 64x64",
        "class-parallel-tiny-imagenet": "the same per class, 32x32",
    },
    "machines of different speed": {
        "cellular-async-digits": "cells that do not wait",
        "md-gan-async-digits": "workers that do not wait",
    },
    "lost modes": {
        "standalone-ring": "one pair on 8 Gaussians",
        "cellular-ring": "a mixture on 8 Gaussians",
    },
    "papers": {
        "class-parallel-mnist": "one DC-GAN per class",
        "cellular-mnist-2x2": "a grid of 2x2",
        "md-gan-mnist-mlp": "ten discriminators",
    },
}
NUM_RUNS = 5  # runs that the command shows


@app.command("list")
def show_names(
    part: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|FILE.py]", help="Show the settings of a part, or of all in a file."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="List all recipes and runs.")] = False,
    papers: Annotated[
        bool, typer.Option("--papers", help="List the recipes of papers, by table and figure.")
    ] = False,
) -> None:
    """List recipes, data sets, networks, strategies, losses, scores, engines, and ./runs."""
    if sum([part is not None, everything, papers]) > 1:
        raise UserError("NAME, --all and --papers cannot be combined: use one of them")
    if part is not None:
        return _describe(part)
    if papers:
        return _print_papers()
    if everything:
        _print_all()
    else:
        _print_groups()
    _print_parts(None if everything else NUM_RUNS)


@app.command("show")
def show_recipe(recipe: Recipe) -> None:
    """Print a recipe as a TOML file to start from: remuda show RECIPE > mine.toml."""
    from remuda import recipes

    typer.echo(recipes.text(recipe), nl=False)


def _about(name: str) -> str:
    from remuda import recipes

    return recipes.read(name)[1].get("about", "")


def _recipe_table(*first: str) -> Table:
    """Return a table that never breaks the names of recipes."""
    table = look.table(*first, "recipe", "about")
    for column in table.columns[:-1]:
        column.no_wrap = True
    return table


def _print_groups() -> None:
    """Print the most useful recipes by purpose."""
    from remuda import recipes

    table = _recipe_table()
    for title, names in GROUPS.items():
        table.add_row(f"[bold]{escape(title)}[/bold]")
        for name, about in names.items():
            table.add_row(f"  {name}", about)
    console.print(table)
    number = len(recipes.names())
    say(f"\nall {number} recipes: remuda list --all; those of papers: remuda list --papers\n")


def _print_all() -> None:
    from remuda import recipes

    table = _recipe_table()
    for name in recipes.names():
        table.add_row(name, escape(_about(name)))
    console.print(table)
    say("")


def _print_papers() -> None:
    """Print the recipes that repeat a paper, by paper, table and figure."""
    from remuda import recipes

    found: dict[str, list[tuple[str, str]]] = {}
    for name in recipes.names():
        paper = recipes.read(name)[1].get("paper", {})
        if paper:
            found.setdefault(paper["source"], []).append((_place(paper), name))
    for source, rows in found.items():
        say(source)
        table = _recipe_table("")
        for place, name in sorted(rows, key=lambda row: (len(row[0]), row)):
            table.add_row(f"  {place}", name, escape(_about(name)))
        console.print(table)
        say("")
    say("remuda show RECIPE prints a recipe with the paper's values; remuda reproduce lists whole")
    say("tables and figures, and trains all runs behind one of them")


def _place(paper: dict) -> str:
    """Return where a paper shows a result, such as ``table III``."""
    for kind in ("table", "figure"):
        if kind in paper:
            return f"{kind} {paper[kind]}"
    return "text"


def _print_parts(num_runs: int | None) -> None:
    """Print the names of all parts, and the newest runs."""
    from remuda.data import DATASETS
    from remuda.engines import ENGINES
    from remuda.gan import LOSSES
    from remuda.networks import NETWORKS
    from remuda.scores.config import KINDS
    from remuda.strategies import STRATEGIES

    table = look.table("part", "names")
    kinds = {
        "data sets": [*_with_origin(DATASETS), "folder:PATH"],
        "networks": _with_origin(NETWORKS),
        "strategies": _with_origin(STRATEGIES),
        "losses": _with_origin(LOSSES),
        "scores": _with_origin(KINDS),
        "engines": ENGINES,
        "runs": _runs(num_runs),
    }
    for title, names in kinds.items():
        table.add_row(title, escape(", ".join(names) or "none yet"))
    console.print(table)


def _runs(limit: int | None) -> Iterable[str]:
    """Return the runs in ./runs, or only the newest and how to see the others."""
    configs = sorted(Path("runs").glob("*/config.toml"))
    names = [str(path.parent) for path in configs]
    if limit is None or len(names) <= limit:
        return names
    newest = sorted(configs, key=lambda path: path.stat().st_mtime)[-limit:]
    rest = f"and {len(names) - limit} more (remuda status runs)"
    return [*sorted(str(path.parent) for path in newest), rest]


def _with_origin(choices: Choices) -> list[str]:
    """Return all names; those of installed packages with the name of the package."""
    return [
        f"{name} ({package})" if (package := choices.package(name)) else name for name in choices
    ]


def _describe(name: str) -> None:
    from remuda.config import describe

    found = describe.find(name)
    if not found:
        kinds = "networks, strategies, losses, data sets or scores: see docs/own-parts.md"
        if name.endswith(".py"):
            raise UserError(f"{name} contains no {kinds}")
        if parts.is_reference(name):
            raise UserError(f"{name} is none of these: {kinds}")
        known = {one: None for known in describe.PARTS.values() for one in known}
        hint = suggestion(name, known)
        raise UserError(f"no part is called {name!r}: {hint}")
    for one in found:
        say(f'{one.setting} = "{one.name}"{f": {one.about}" if one.about else ""}')
        if one.settings:
            table = look.table("setting", "values", "default", "meaning")
            for setting in one.settings:
                table.add_row(*map(escape, setting))
            console.print(table)
        say("")
