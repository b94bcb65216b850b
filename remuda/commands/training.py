"""Commands that train: train, resume, repeat, bench."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import remuda
from remuda import bench, compare, launch, recipes
from remuda import config as configs
from remuda.commands.common import (
    DataFolder,
    Device,
    EngineName,
    NumRanks,
    Recipe,
    Rounds,
    RunFolder,
    Setting,
    app,
    assignments,
    console,
    new_progress,
    say,
)
from remuda.herd import assemble
from remuda.networks import summary
from remuda.progress import count
from remuda.record import Record, next_folder
from remuda.repeat import repeat as train_repeats
from remuda.run import changed


@app.command()
def train(
    recipe: Recipe,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the record; default runs/RECIPE-NNN.")
    ] = None,
    members: Annotated[int | None, typer.Option(help="Size of the population.")] = None,
    rounds: Rounds = None,
    engine: EngineName = None,
    ranks: NumRanks = None,
    device: Device = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random draw.")] = None,
    data: DataFolder = None,
    settings: Setting = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be trained, and stop.")] = False,
) -> None:
    """Train a herd from a recipe or a TOML file."""
    flags = {
        "run.members": members,
        "run.rounds": rounds,
        "engine.name": engine,
        "engine.ranks": ranks,
        "engine.device": device,
        "run.seed": seed,
        "data.path": data,
    }
    name, values = recipes.read(recipe)
    config = configs.from_dict(configs.override(values, (settings or []) + assignments(flags)))
    if dry_run:
        return _describe(config)
    _start_ranks(config)
    folder = remuda.run(config, out or next_folder(name), new_progress())
    _closing_words(folder)


@app.command()
def resume(
    run: RunFolder,
    rounds: Rounds = None,
    device: Device = None,
    members: Annotated[int | None, typer.Option(help="More or fewer of them, with md-gan and fl-gan.")] = None,
    engine: EngineName = None,
    ranks: NumRanks = None,
) -> None:
    """Go on with a run that was stopped or killed, or train a finished one longer."""
    _start_ranks(changed(Record.open(run).config, rounds, device, members, engine, ranks))
    _closing_words(remuda.resume(run, rounds, device, new_progress(), members, engine, ranks))


@app.command()
def repeat(
    recipe: Recipe,
    seeds: Annotated[int, typer.Option(help="How many.")] = 10,
    first_seed: Annotated[int, typer.Option(help="The others follow it.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the runs; default runs/RECIPE-repeats.")
    ] = None,
    device: Device = None,
    data: DataFolder = None,
    settings: Setting = None,
) -> None:
    """Train a recipe with several seeds, go on where that was stopped, and compare."""
    flags = assignments({"engine.device": device, "data.path": data})
    name = recipes.read(recipe)[0]
    config = recipes.recipe(recipe, *(settings or []), *flags)
    repeats = train_repeats(config, out or Path("runs") / f"{name}-repeats", seeds, first_seed, new_progress)
    if repeats.finished:
        typer.echo(compare.compare(repeats.finished).render(), nl=False)
    repeats.refuse_failures()


@app.command("bench")
def show_expectations(
    recipe: Annotated[str | None, typer.Argument(metavar="[RECIPE|FILE.toml]", help="Default: the digits.")] = None,
    device: Device = None,
    data: DataFolder = None,
    settings: Setting = None,
) -> None:
    """Run a few steps here, and say what a whole run takes in time and memory."""
    flags = assignments({"engine.device": device, "data.path": data})
    for name in [recipe] if recipe else [name for name in recipes.names() if name.endswith("-digits")]:
        config = recipes.recipe(name, *(settings or []), *flags)
        expected = bench.measure(config, say=say)
        say(f"{name} {bench.describe(expected)}")


def _start_ranks(config: configs.RunConfig) -> None:
    """Where ranks are asked for that are not there: they run this very command, and this process waits for them."""
    if number := launch.num_to_start(config.engine):
        raise typer.Exit(launch.start(number, sys.argv[1:]))


def _describe(config: configs.RunConfig) -> None:
    """What a run would be: its configuration, its networks, its size."""
    herd = assemble(replace(config, engine=replace(config.engine, name="stacked", ranks=0)))  # its size is the same
    say(configs.to_toml(config))
    for table in summary.tables(config.networks, herd.facts.shape, len(herd.facts.classes)):
        console.print(table)
    say(
        f"{count(herd.engine.size, 'member')}, {count(config.run.rounds, 'round')} of "
        f"{count(herd.num_steps, 'generator update')}, {herd.images_per_round:,} images a round; nothing was trained"
    )


def _closing_words(folder: Path) -> None:
    grid = Record.open(folder).sample_grids()
    say(f"samples: {grid[-1]}")
    say(f"page:    {folder / 'index.html'}")
