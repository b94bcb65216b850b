"""Commands that train a run: train and resume."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remuda.cli.common import (
    DataFolder,
    Device,
    EngineName,
    Hosts,
    NumRanks,
    Recipe,
    Restarts,
    Rounds,
    RunFolder,
    Setting,
    SkipBroken,
    Trust,
    app,
    assignments,
    console,
    new_progress,
    say,
)
from remuda.cli.ranks import listed_hosts, start_ranks
from remuda.errors import UserError, command

if TYPE_CHECKING:
    from remuda.config import RunConfig


@app.command()
def train(
    recipe: Recipe,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the record; default: runs/RECIPE-NNN."),
    ] = None,
    members: Annotated[int | None, typer.Option(help="Size of the population.")] = None,
    rounds: Rounds = None,
    engine: EngineName = None,
    ranks: NumRanks = None,
    hosts: Hosts = None,
    restarts: Restarts = None,
    device: Device = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random draw.")] = None,
    data: DataFolder = None,
    skip_broken: SkipBroken = False,
    settings: Setting = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be trained, and stop.")
    ] = False,
    trust: Trust = False,
) -> None:
    """Train a herd from a recipe or a TOML file."""
    from remuda import recipes
    from remuda.record import next_folder
    from remuda.training.run import run

    flags = {
        "run.members": members,
        "run.rounds": rounds,
        "engine.name": engine,
        "engine.ranks": ranks,
        "engine.hosts": listed_hosts(hosts),
        "engine.restarts": restarts,
        "engine.device": device,
        "run.seed": seed,
        "data.path": data,
        "data.skip_broken": skip_broken or None,
    }
    config = recipes.recipe(recipe, *(settings or []), *assignments(flags), trust=trust)
    if dry_run:
        return _describe(config)
    folder = out or next_folder(recipes.read(recipe)[0])
    start_ranks(config, folder, [] if out else ["--out", str(folder)])
    _print_results(run(config, folder, new_progress()))


@app.command("resume")
def resume_run(
    run: RunFolder,
    rounds: Rounds = None,
    device: Device = None,
    members: Annotated[
        int | None,
        typer.Option(help="New size of the population; class-parallel, md-gan, fl-gan."),
    ] = None,
    engine: EngineName = None,
    ranks: NumRanks = None,
    hosts: Hosts = None,
    restarts: Restarts = None,
    settings: Setting = None,
    trust: Trust = False,
) -> None:
    """Resume a run that was stopped or killed, or train a finished run longer."""
    from remuda.record import Record
    from remuda.training.run import changed, resume

    hosts = listed_hosts(hosts)
    more = (settings or []) + assignments({"engine.restarts": restarts})
    recorded = Record.open(run, trust).config
    config = changed(recorded, rounds, device, members, engine, ranks, hosts, more)
    start_ranks(config, run)
    _print_results(resume(run, progress=new_progress(), config=config, trust=trust))


def _describe(config: "RunConfig") -> None:
    """Print what would be trained: the configuration, the networks and the sizes."""
    from remuda.config import to_toml
    from remuda.networks import summary
    from remuda.system.text import count
    from remuda.training.assemble import assemble

    if config.data.is_per_rank:
        raise UserError(
            "--dry-run cannot replace {rank} and {host} in data.path: name the data of one rank"
        )
    # The sizes are the same on every engine.
    engine = replace(config.engine, name="stacked", ranks=0, hosts="")
    herd = assemble(replace(config, engine=engine))
    say(to_toml(config))
    for table in summary.tables(config.networks, herd.facts.shape, len(herd.facts.classes)):
        console.print(table)
    say(
        f"{count(herd.engine.size, 'member')}, {count(config.run.rounds, 'round')} of "
        f"{count(herd.num_steps, 'generator update')}, {herd.images_per_round:,} images per round; "
        "nothing was trained"
    )


def _print_results(folder: Path) -> None:
    from remuda.record import Record, endings, seconds

    record = Record.open(folder)
    say(f"samples: {record.sample_grids()[-1]}")
    if (best := record.best()) is not None:
        say(f"best:    {endings.describe(best)}; {command('sample', folder)} --best")
    say(f"page:    {folder / 'index.html'}")
    if took := seconds.describe(record.environments()[-1]):
        say(took)
