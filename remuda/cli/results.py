"""Commands that look at what was trained, or is being trained: sample, score, compare, report, status."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import remuda
from remuda.cli.common import DataFolder, RunFolder, app, console, say
from remuda.model.samples import write_samples
from remuda.model.scoring import score as score_run
from remuda.reports import compare, status
from remuda.reports import page as report
from remuda.scores.config import KINDS


@app.command()
def sample(
    run: RunFolder,
    n: Annotated[int, typer.Option("--n", help="Images; with --label all, of each label.")] = 64,
    label: Annotated[
        str | None, typer.Option(metavar="K|NAME|all", help="Only this class, or each in a row.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.png|DIR", help="A grid, or a folder of images.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of noise and labels.")] = 0,
    checkpoint: Annotated[
        int | None, typer.Option(help="Round of the checkpoint; default the newest.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
) -> None:
    """Draw images from a trained herd."""
    model = remuda.load(run, checkpoint, device, say)
    target = out or run / "sample.png"
    write_samples(model, n, label, target, seed)
    say(f"samples of round {model.round}: {target}")


@app.command()
def score(
    run: RunFolder,
    kinds: Annotated[
        str | None, typer.Option("--with", metavar="A,B", help=f"auto, all, {', '.join(KINDS)}.")
    ] = None,
    n: Annotated[int | None, typer.Option(help="Generated images; default 10,000.")] = None,
    checkpoint: Annotated[
        int | None, typer.Option(help="Round of the checkpoint; default the newest.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="Split to compare with: train or test.")
    ] = None,
    classifier: Annotated[
        str | None, typer.Option(help="auto, or train: one of the data's own classes.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the samples.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "auto",
    data: DataFolder = None,
) -> None:
    """Score a trained herd, and keep the values with their protocol in its record."""
    flags = {"kinds": kinds, "samples": n, "reference": reference, "classifier": classifier}
    settings = {name: flag for name, flag in flags.items() if flag is not None}
    path = None if data is None else str(data)
    values = score_run(
        run, checkpoint=checkpoint, device=device, data=path, seed=seed, notify=say, **settings
    )
    table = Table("score", "value", "spread", "real images")
    for value in values:
        spread = "" if value.spread is None else f"{value.spread:.4g}"
        floor = "" if value.floor is None else f"{value.floor:.4g} ({value.floor_samples:,})"
        table.add_row(value.name, f"{value.value:.4g}", spread, floor)
    console.print(table)


@app.command("compare")
def show_comparison(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders of runs, or folders that hold runs."),
    ],
    t: Annotated[
        int | None, typer.Option("--round", help="Scores of this round; default the last scored.")
    ] = None,
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
        say(str(out))


@app.command("report")
def write_report(run: RunFolder) -> None:
    """Write a run's page anew."""
    say(str(report.write(run)))


@app.command("status")
def show_status(
    run: RunFolder,
    watch: Annotated[
        bool, typer.Option("--watch", help="Again every second, until it ends; Ctrl-C leaves.")
    ] = False,
) -> None:
    """How a run is doing: state, pace, time left, losses, and every rank."""
    (status.follow if watch else status.show)(run, console)
