"""The command line: one thin function per command."""

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table

import remuda
from remuda import bench, compare, recipes, report
from remuda import config as configs
from remuda import data as datasets
from remuda.engines import ENGINES
from remuda.errors import UserError
from remuda.herd import assemble
from remuda.networks import NETWORKS, summary
from remuda.progress import Bar, Lines, Progress, count
from remuda.record import Record, next_folder
from remuda.repeat import repeat as train_repeats
from remuda.run import Interrupted
from remuda.samples import write_samples
from remuda.scores.kinds import KINDS
from remuda.scoring import score as score_run
from remuda.strategies import STRATEGIES

app = typer.Typer(
    help="Train GANs as a herd.", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
console = Console()

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]
Setting = Annotated[list[str] | None, typer.Option("--set", metavar="A.B=C", help="Change a setting; may be repeated.")]
DataFolder = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Folder with the data sets' files.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:N or auto.")]
Rounds = Annotated[int | None, typer.Option(help="Rounds to train.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        _say(f"remuda {remuda.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Train GANs as a herd."""


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE|FILE.toml", help="See `remuda list`.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the record; default runs/RECIPE-NNN.")
    ] = None,
    members: Annotated[int | None, typer.Option(help="Size of the population.")] = None,
    rounds: Rounds = None,
    engine: Annotated[str | None, typer.Option(help="Where members live: " + ", ".join(ENGINES) + ".")] = None,
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
        "engine.device": device,
        "run.seed": seed,
        "data.path": data,
    }
    assignments = [f"{key}={_toml(value)}" for key, value in flags.items() if value is not None]
    name, values = recipes.read(recipe)
    config = configs.from_dict(configs.override(values, (settings or []) + assignments))
    if dry_run:
        return _describe(config)
    folder = remuda.run(config, out or next_folder(name), _progress())
    _closing_words(folder)


@app.command()
def resume(run: RunFolder, rounds: Rounds = None, device: Device = None) -> None:
    """Go on with a run that was stopped or killed, or train a finished one longer."""
    _closing_words(remuda.resume(run, rounds, device, _progress()))


@app.command()
def sample(
    run: RunFolder,
    n: Annotated[int, typer.Option("--n", help="Images; with --label all, of each label.")] = 64,
    label: Annotated[str | None, typer.Option(metavar="K|NAME|all", help="Only this class, or each in a row.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.png|DIR", help="A grid, or a folder of images.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of noise and labels.")] = 0,
    checkpoint: Annotated[int | None, typer.Option(help="Round of the checkpoint; default the newest.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
) -> None:
    """Draw images from a trained herd."""
    model = remuda.load(run, checkpoint, device)
    target = out or run / "sample.png"
    write_samples(model, n, label, target, seed)
    _say(f"samples of round {model.round}: {target}")


@app.command("data")
def show_data(
    name: Annotated[str, typer.Argument(help="A data set, see `remuda list`.")],
    anova: Annotated[bool, typer.Option("--anova", help="Analysis of variance between classes.")] = False,
    data: DataFolder = None,
    settings: Setting = None,
) -> None:
    """Counts, sizes and statistics of a data set."""
    flags = [f"data.name={_toml(name)}"] + ([f"data.path={_toml(data)}"] if data else [])
    config = configs.from_dict(configs.override({}, (settings or []) + flags))
    datasets.print_summary(datasets.load(config.data), console, anova)


@app.command("bench")
def show_expectations(
    recipe: Annotated[str | None, typer.Argument(metavar="[RECIPE|FILE.toml]", help="Default: the digits.")] = None,
    device: Device = None,
    data: DataFolder = None,
    settings: Setting = None,
) -> None:
    """Run a few steps here, and say what a whole run takes in time and memory."""
    flags = [f"engine.device={_toml(device)}"] if device else []
    flags += [f"data.path={_toml(data)}"] if data else []
    for name in [recipe] if recipe else [name for name in recipes.names() if name.endswith("-digits")]:
        config = recipes.recipe(name, *(settings or []), *flags)
        expected = bench.measure(config, say=_say)
        _say(f"{name} {bench.describe(expected)}")


@app.command()
def score(
    run: RunFolder,
    kinds: Annotated[str | None, typer.Option("--with", metavar="A,B", help=f"auto, all, {', '.join(KINDS)}.")] = None,
    n: Annotated[int | None, typer.Option(help="Generated images; default 10,000.")] = None,
    checkpoint: Annotated[int | None, typer.Option(help="Round of the checkpoint; default the newest.")] = None,
    reference: Annotated[str | None, typer.Option(help="Split to compare with: train or test.")] = None,
    classifier: Annotated[str | None, typer.Option(help="auto, or train: one of the data's own classes.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the samples.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "auto",
    data: DataFolder = None,
) -> None:
    """Score a trained herd, and keep the values with their protocol in its record."""
    flags = {"kinds": kinds, "samples": n, "reference": reference, "classifier": classifier}
    settings = {name: flag for name, flag in flags.items() if flag is not None}
    path = None if data is None else str(data)
    values = score_run(run, checkpoint=checkpoint, device=device, data=path, seed=seed, say=_say, **settings)
    table = Table("score", "value", "spread", "real images")
    for value in values:
        spread = "" if value.spread is None else f"{value.spread:.4g}"
        floor = "" if value.floor is None else f"{value.floor:.4g} ({value.floor_samples:,})"
        table.add_row(value.name, f"{value.value:.4g}", spread, floor)
    console.print(table)


@app.command("compare")
def show_comparison(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or folders that hold runs.")],
    t: Annotated[int | None, typer.Option("--round", help="Scores of this round; default the last scored.")] = None,
    form: Annotated[str, typer.Option("--format", help=", ".join(compare.FORMATS) + ".")] = "text",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it there.")] = None,
) -> None:
    """Runs beside each other: what they took, and their scores with the spread over seeds."""
    comparison = compare.compare(runs, t)
    table = comparison.render(form)
    if form == "csv":  # has no place for them, and they are not to be overlooked
        typer.echo("\n".join(comparison.notes), err=True)
    if out is None:
        typer.echo(table, nl=False)
    else:
        out.write_text(table, encoding="utf-8")
        _say(str(out))


@app.command()
def repeat(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE|FILE.toml", help="See `remuda list`.")],
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
    flags = [f"engine.device={_toml(device)}"] if device else []
    flags += [f"data.path={_toml(data)}"] if data else []
    name = recipes.read(recipe)[0]
    config = recipes.recipe(recipe, *(settings or []), *flags)
    repeats = train_repeats(config, out or Path("runs") / f"{name}-repeats", seeds, first_seed, _progress)
    if repeats.finished:
        typer.echo(compare.compare(repeats.finished).render(), nl=False)
    repeats.refuse_failures()


@app.command("report")
def write_report(run: RunFolder) -> None:
    """Write a run's page anew."""
    _say(str(report.write(run)))


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
        console.print(f"\n{title}: {', '.join(known) or 'none yet'}", highlight=False)


def _describe(config: configs.RunConfig) -> None:
    """What a run would be: its configuration, its networks, its size."""
    herd = assemble(config)
    _say(configs.to_toml(config))
    for table in summary.tables(config.networks, herd.facts.shape, len(herd.facts.classes)):
        console.print(table)
    _say(
        f"{count(herd.engine.size, 'member')}, {count(config.run.rounds, 'round')} of "
        f"{count(herd.num_steps, 'generator update')}, {herd.images_per_round:,} images a round; nothing was trained"
    )


def _closing_words(folder: Path) -> None:
    grid = Record.open(folder).sample_grids()
    _say(f"samples: {grid[-1]}")
    _say(f"page:    {folder / 'index.html'}")


def _say(text: str) -> None:
    """Plain text as it is: paths stay in one piece."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _progress() -> Progress:
    return Bar(console) if console.is_terminal else Lines(console)


def _toml(value: object) -> str:
    """A flag's value as TOML, so that a text of digits stays a text."""
    return str(value) if isinstance(value, int) else '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


STOPS = (signal.SIGINT, signal.SIGTERM)  # Ctrl-C, and what a batch system sends first


def _stop_politely(*_: object) -> None:
    """Once: a second signal, which time limits like to send along, would cut off what the first one has saved."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _sentence(error: Exception) -> str:
    if isinstance(error, torch.OutOfMemoryError):
        return "the device's memory is full: lower strategy.batch_size, strategy.steps_per_round or run.members"
    if isinstance(error, OSError):
        return f"{error.filename or 'input or output'}: {error.strerror or error}"
    return str(error)


def main() -> None:
    """Run a command; what the user can put right is one sentence and status 2."""
    for number in STOPS:
        signal.signal(number, _stop_politely)
    errors = Console(stderr=True)
    try:
        app()
    except (Interrupted, KeyboardInterrupt) as stop:
        errors.print(str(stop), highlight=False, soft_wrap=True)
        sys.exit(130)
    except (UserError, OSError, torch.OutOfMemoryError) as error:
        if os.environ.get("REMUDA_TRACEBACK"):
            raise
        errors.print(f"remuda: {_sentence(error)}", style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(2)
