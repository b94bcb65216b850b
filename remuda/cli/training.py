"""Commands that train: train, resume, repeat, bench, scaling."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import remuda
from remuda import config as configs
from remuda import recipes
from remuda.cli.common import (
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
from remuda.cluster import launch
from remuda.errors import UserError
from remuda.experiments import bench
from remuda.experiments.repeats import repeat as train_repeats
from remuda.experiments.scaling import read_ranks, scale
from remuda.networks import summary
from remuda.record.record import Record, next_folder
from remuda.reports import compare
from remuda.system.text import count
from remuda.training.assemble import assemble
from remuda.training.run import changed


@app.command()
def train(
    recipe: Recipe,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the record; default runs/RECIPE-NNN."),
    ] = None,
    members: Annotated[int | None, typer.Option(help="Size of the population.")] = None,
    rounds: Rounds = None,
    engine: EngineName = None,
    ranks: NumRanks = None,
    device: Device = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random draw.")] = None,
    data: DataFolder = None,
    settings: Setting = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be trained, and stop.")
    ] = False,
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
    folder = out or next_folder(name)
    _start_ranks(config, folder, [] if out else ["--out", str(folder)])
    _closing_words(remuda.run(config, folder, new_progress()))


@app.command()
def resume(
    run: RunFolder,
    rounds: Rounds = None,
    device: Device = None,
    members: Annotated[
        int | None, typer.Option(help="More or fewer of them, with md-gan and fl-gan.")
    ] = None,
    engine: EngineName = None,
    ranks: NumRanks = None,
) -> None:
    """Go on with a run that was stopped or killed, or train a finished one longer."""
    _start_ranks(changed(Record.open(run).config, rounds, device, members, engine, ranks), run)
    _closing_words(remuda.resume(run, rounds, device, new_progress(), members, engine, ranks))


@app.command()
def repeat(
    recipe: Recipe,
    seeds: Annotated[int, typer.Option(help="How many.")] = 10,
    first_seed: Annotated[int, typer.Option(help="The others follow it.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the runs; default runs/RECIPE-repeats."),
    ] = None,
    device: Device = None,
    data: DataFolder = None,
    settings: Setting = None,
) -> None:
    """Train a recipe with several seeds, go on where that was stopped, and compare."""
    flags = assignments({"engine.device": device, "data.path": data})
    name = recipes.read(recipe)[0]
    config = recipes.recipe(recipe, *(settings or []), *flags)
    repeats = train_repeats(
        config, out or Path("runs") / f"{name}-repeats", seeds, first_seed, new_progress
    )
    if repeats.finished:
        typer.echo(compare.compare(repeats.finished).render(), nl=False)
    repeats.refuse_failures()


@app.command("bench")
def show_expectations(
    recipe: Annotated[
        str | None, typer.Argument(metavar="[RECIPE|FILE.toml]", help="Default: the digits.")
    ] = None,
    device: Device = None,
    data: DataFolder = None,
    settings: Setting = None,
) -> None:
    """Run a few steps here, and say what a whole run takes in time and memory."""
    flags = assignments({"engine.device": device, "data.path": data})
    for name in (
        [recipe] if recipe else [name for name in recipes.names() if name.endswith("-digits")]
    ):
        config = recipes.recipe(name, *(settings or []), *flags)
        expected = bench.measure(config, notify=say)
        say(f"{name} {bench.describe(expected)}")


@app.command("scaling")
def show_scaling(
    recipe: Recipe,
    ranks: Annotated[
        str, typer.Option(metavar="1,A,B", help="Numbers of ranks, 1 among them.")
    ] = "1,2",
    strong: Annotated[
        bool, typer.Option("--strong", help="The same herd on more ranks; the default.")
    ] = False,
    weak: Annotated[bool, typer.Option("--weak", help="A herd that grows with the ranks.")] = False,
    repeats: Annotated[int, typer.Option(help="Runs with each number of ranks.")] = 3,
    rounds: Annotated[int, typer.Option(help="Of each run; the first is not timed.")] = 5,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Default runs/RECIPE-scaling-KIND.")
    ] = None,
    data: DataFolder = None,
    settings: Setting = None,
) -> None:
    """Time a recipe on several numbers of ranks, and predict it for more."""
    if strong and weak:
        raise UserError(
            "--strong and --weak are two experiments: choose one, and call the other after it"
        )
    name, values = recipes.read(recipe)
    config = configs.from_dict(
        configs.override(values, (settings or []) + assignments({"data.path": data}))
    )
    folder = out or Path("runs") / f"{name}-scaling-{'weak' if weak else 'strong'}"
    found = scale(name, config, folder, read_ranks(ranks), weak, repeats, rounds, say)
    console.print(_table(found.header(), found.rows()))
    if found.predicted():
        say("\npredicted, not measured:")
        console.print(_table(found.predicted_header(), found.predicted_rows()))
    for text in ["", *found.notes(), f"figure: {folder / 'scaling.png'}"]:
        say(text)


def _table(header: Sequence[str], rows: list[list[str]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in header:
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def _start_ranks(config: configs.RunConfig, folder: Path, more: Sequence[str] = ()) -> None:
    """Where ranks are asked for that are not there: they run this very command, and this process waits for them."""
    if number := launch.num_to_start(config.engine):
        raise typer.Exit(launch.start(number, [*sys.argv[1:], *more], folder, say))


def _describe(config: configs.RunConfig) -> None:
    """What a run would be: its configuration, its networks, its size."""
    if config.data.is_per_rank:
        raise UserError(
            "only ranks know what {rank} and {host} stand for: name the data of one of them for --dry-run"
        )
    herd = assemble(
        replace(config, engine=replace(config.engine, name="stacked", ranks=0))
    )  # its size is the same
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
