"""Commands that tell what there is, and what it would take: data, traffic, doctor, list."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from remuda import config as configs
from remuda import data as datasets
from remuda import recipes
from remuda.cli.common import DataFolder, Recipe, Setting, app, assignments, console, say
from remuda.cluster import doctor
from remuda.engines import ENGINES
from remuda.experiments import traffic
from remuda.networks import NETWORKS
from remuda.strategies import STRATEGIES


@app.command("data")
def show_data(
    name: Annotated[str, typer.Argument(help="A data set, see `remuda list`.")],
    anova: Annotated[
        bool, typer.Option("--anova", help="Analysis of variance between classes.")
    ] = False,
    data: DataFolder = None,
    settings: Setting = None,
) -> None:
    """Counts, sizes and statistics of a data set."""
    flags = assignments({"data.name": name, "data.path": data})
    config = configs.from_dict(configs.override({}, (settings or []) + flags))
    datasets.print_summary(datasets.load(config.data), console, anova)


@app.command("traffic")
def show_traffic(
    recipe: Recipe,
    members: Annotated[int, typer.Option(help="Workers; default the recipe's, or 10.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.png|.svg", help="Draw the ingress there.")
    ] = None,
    data: DataFolder = None,
    settings: Setting = None,
) -> None:
    """What MD-GAN and FL-GAN would send and compute with a recipe's networks and data."""
    config = recipes.recipe(recipe, *(settings or []), *assignments({"data.path": data}))
    setting = traffic.setting_of(config, members)
    if out is not None:
        traffic.draw(setting, out)
    traffic.print_tables(setting, console)
    if out is not None:
        say(f"figure: {out}")


@app.command("doctor")
def show_health(
    ranks: Annotated[
        int, typer.Option("--ranks", help="To start for a trial; default the batch job's, or 2.")
    ] = 0,
) -> None:
    """What is there, what would fail and what helps; how fast ranks speak to each other."""
    if not doctor.examine(ranks, say):
        raise typer.Exit(2)


@app.command("list")
def show_names() -> None:
    """Recipes, data sets, networks, strategies, engines, and the runs in ./runs."""
    table = Table("recipe", "about", box=None, pad_edge=False)
    for name in recipes.names():
        table.add_row(name, recipes.read(name)[1].get("about", ""))
    console.print(table)
    for title, known in (
        ("data sets", [*datasets.DATASETS, "folder:PATH"]),
        ("networks", NETWORKS),
        ("strategies", STRATEGIES),
        ("engines", ENGINES),
        ("runs", sorted(str(path.parent) for path in Path("runs").glob("*/config.toml"))),
    ):
        console.print(f"\n{title}: {', '.join(known) or 'none yet'}", highlight=False, markup=False)
