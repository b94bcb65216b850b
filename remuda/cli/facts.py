"""Commands that neither train nor need a run: data, traffic and doctor."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from remuda.cli.common import DataFolder, Recipe, Setting, Trust, app, assignments, console, say


@app.command("data")
def show_data(
    name: Annotated[str, typer.Argument(help="A data set from `remuda list`.")],
    anova: Annotated[
        bool, typer.Option("--anova", help="Analyse the variance between classes.")
    ] = False,
    data: DataFolder = None,
    settings: Setting = None,
) -> None:
    """Show the counts, sizes and statistics of a data set, and which files are broken."""
    from remuda.config import from_dict, override
    from remuda.data import load, print_summary
    from remuda.data.survey import print_survey, survey

    flags = assignments({"data.name": name, "data.path": data})
    config = from_dict(override({}, (settings or []) + flags)).data
    if config.is_images:
        found = survey(config)
        print_survey(found, config, console)
        if not found.can_load(config):
            return
        config = replace(config, skip_broken=True)
    print_summary(load(config), console, anova)


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
    trust: Trust = False,
) -> None:
    """Show how much MD-GAN and FL-GAN send and compute with a recipe's networks and data."""
    from remuda import recipes
    from remuda.experiments import traffic

    flags = assignments({"data.path": data})
    config = recipes.recipe(recipe, *(settings or []), *flags, trust=trust)
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
