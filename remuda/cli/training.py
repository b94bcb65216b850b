"""Commands that train: train, resume, repeat, bench and scaling."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

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
    app,
    assignments,
    console,
    new_progress,
    say,
)
from remuda.cli.completion import complete_recipe
from remuda.errors import UserError

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
    settings: Setting = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be trained, and stop.")
    ] = False,
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
        "engine.hosts": _listed(hosts),
        "engine.restarts": restarts,
        "engine.device": device,
        "run.seed": seed,
        "data.path": data,
    }
    config = recipes.recipe(recipe, *(settings or []), *assignments(flags))
    if dry_run:
        return _describe(config)
    folder = out or next_folder(recipes.read(recipe)[0])
    _start_ranks(config, folder, [] if out else ["--out", str(folder)])
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
) -> None:
    """Resume a run that was stopped or killed, or train a finished run longer."""
    from remuda.record import Record
    from remuda.training.run import changed, resume

    hosts = _listed(hosts)
    recorded = Record.open(run).config
    if restarts is not None:
        recorded = replace(recorded, engine=replace(recorded.engine, restarts=restarts))
    config = changed(recorded, rounds, device, members, engine, ranks, hosts)
    _start_ranks(config, run)
    _print_results(
        resume(
            run,
            rounds,
            device,
            new_progress(),
            members,
            engine,
            ranks,
            config=recorded,
            hosts=hosts,
        )
    )


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
) -> None:
    """Train a recipe with several seeds and compare the runs; run it again to resume."""
    from remuda import recipes
    from remuda.experiments.repeats import repeat
    from remuda.reports.compare import compare

    flags = assignments({"engine.device": device, "data.path": data})
    config = recipes.recipe(recipe, *(settings or []), *flags)
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
        ),
    ] = None,
    device: Device = None,
    data: DataFolder = None,
    settings: Setting = None,
) -> None:
    """Run a few rounds here, and predict the time and memory of a whole run."""
    from remuda import recipes
    from remuda.experiments.bench import measure
    from remuda.experiments.expectation import describe
    from remuda.system import processes

    if recipe is None:
        return _bench_each([name for name in recipes.names() if name.endswith("-digits")])
    flags = assignments({"engine.device": device, "data.path": data})
    config = recipes.recipe(recipe, *(settings or []), *flags)
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
) -> None:
    """Time a recipe on several numbers of ranks, and predict the time on more."""
    from remuda import recipes
    from remuda.experiments.scaling import read_ranks, scale

    if strong and weak:
        raise UserError("cannot combine --strong and --weak: run one after the other")
    config = recipes.recipe(recipe, *(settings or []), *assignments({"data.path": data}))
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
    table = Table(box=None, pad_edge=False)
    for title in header:
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def _start_ranks(config: "RunConfig", folder: Path, more: Sequence[str] = ()) -> None:
    """Start ranks if the engine needs them. They run the command, and this process waits."""
    from remuda.cluster import hosts, launch, supervision

    engine = config.engine
    if number := launch.num_to_start(engine):
        places = hosts.parse(engine.hosts)
        if places:  # other hosts may not have the file with the hosts
            more = [*more, "--hosts", engine.hosts]
        job = supervision.Job(
            arguments=[*sys.argv[1:], *more],
            num_ranks=number,
            folder=folder,
            hosts=places,
            restarts=0 if engine.on_failure == "stop" else engine.restarts,
            timeout=engine.failure_timeout,
        )
        sys.exit(supervision.start(job, say))


def _listed(text_or_file: str | None) -> str | None:
    """Return the hosts of --hosts as a list such as ``a:4,b:4``."""
    from remuda.cluster import hosts

    return None if text_or_file is None else hosts.describe(hosts.read(text_or_file))


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
    from remuda.record import Record, seconds

    record = Record.open(folder)
    say(f"samples: {record.sample_grids()[-1]}")
    say(f"page:    {folder / 'index.html'}")
    if took := seconds.describe(record.environments()[-1]):
        say(took)
