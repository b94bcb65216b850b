"""Commands that neither train nor need a run: data, traffic, doctor and list."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from remuda.cli.common import DataFolder, Recipe, Setting, app, assignments, console, say


@app.command("data")
def show_data(
    name: Annotated[str, typer.Argument(help="A data set from `remuda list`.")],
    anova: Annotated[
        bool, typer.Option("--anova", help="Analyse the variance between classes.")
    ] = False,
    data: DataFolder = None,
    settings: Setting = None,
) -> None:
    """Show the counts, sizes and statistics of a data set."""
    from remuda.config import from_dict, override
    from remuda.data import load, print_summary

    flags = assignments({"data.name": name, "data.path": data})
    config = from_dict(override({}, (settings or []) + flags))
    print_summary(load(config.data), console, anova)


@app.command("traffic")
def show_traffic(
    recipe: Recipe,
    members: Annotated[
        int, typer.Option(help="Number of workers; default: the recipe's, or 10.")
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png|.svg", help="Also draw the ingress into this file."),
    ] = None,
    data: DataFolder = None,
    settings: Setting = None,
) -> None:
    """Show how much MD-GAN and FL-GAN send and compute with a recipe's networks and data."""
    from remuda import recipes
    from remuda.experiments import traffic

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
        int,
        typer.Option("--ranks", help="Ranks to start for a test; default: as in the job, or 2."),
    ] = 0,
    hosts: Annotated[
        str,
        typer.Option("--hosts", metavar="A:N,B:N|FILE", help="Check these hosts too, by ssh."),
    ] = "",
) -> None:
    """Check this machine and its MPI: what works, what would fail, how fast messages are."""
    from remuda.cluster import doctor, launch
    from remuda.cluster.hosts import describe, read
    from remuda.config import EngineConfig

    places = read(hosts)
    launch.num_requested(EngineConfig(name="mpi", ranks=ranks, hosts=describe(places)))
    if not doctor.examine(ranks, say, places):
        raise typer.Exit(2)


@app.command("list")
def show_names() -> None:
    """List recipes, data sets, networks, strategies, engines, and the runs in ./runs."""
    from remuda import recipes
    from remuda.data import DATASETS
    from remuda.engines import ENGINES
    from remuda.networks import NETWORKS
    from remuda.strategies import STRATEGIES

    table = Table("recipe", "about", box=None, pad_edge=False)
    for name in recipes.names():
        table.add_row(name, recipes.read(name)[1].get("about", ""))
    console.print(table)
    _print_names("data sets", [*DATASETS, "folder:PATH"])
    _print_names("networks", NETWORKS)
    _print_names("strategies", STRATEGIES)
    _print_names("engines", ENGINES)
    _print_names("runs", sorted(str(path.parent) for path in Path("runs").glob("*/config.toml")))


def _print_names(title: str, names: Iterable[str]) -> None:
    console.print(f"\n{title}: {', '.join(names) or 'none yet'}", highlight=False, markup=False)
