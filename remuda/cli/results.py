"""Commands for existing runs: sample, score, compare, report and status."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from remuda.cli.common import CheckpointRound, DataFolder, RunFolder, app, console, say
from remuda.cli.completion import complete_run
from remuda.errors import UserError
from remuda.scores.config import KINDS

Walk = Annotated[
    tuple[str, str] | None,
    typer.Option(
        metavar="A B",
        help="Interpolate between two points, CLASS, CLASS:SEED or :SEED, in --n rows (1).",
    ),
]
SampleTarget = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.png|DIR",
        help="File for a grid, or folder for images; with --walk also .gif, .webp or .apng.",
    ),
]


@app.command()
def sample(
    run: RunFolder,
    n: Annotated[
        int | None,
        typer.Option("--n", help="Number of images (64); with --label all, per label."),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="K|NAME|all", help="Draw only this class, or all in rows."),
    ] = None,
    walk: Walk = None,
    frames: Annotated[
        int | None, typer.Option(help="Images of a walk; default: 8 in a picture, otherwise 32.")
    ] = None,
    out: SampleTarget = None,
    seed: Annotated[int, typer.Option(help="Seed of noise and labels.")] = 0,
    checkpoint: CheckpointRound = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
) -> None:
    """Draw images from a trained herd."""
    from remuda.model.model import load
    from remuda.model.samples import write_samples, write_walk

    if walk and label is not None:
        raise UserError(
            "--label cannot be combined with --walk: write the class into both points, for "
            "instance --walk 3:0 3:1"
        )
    if frames is not None and not walk:
        raise UserError("--frames requires --walk: use --n for the number of images")
    model = load(run, checkpoint, device, say)
    if walk:
        target = out or run / "walk.png"
        write_walk(model, *walk, target, frames, 1 if n is None else n, seed, say)
        say(f"walk of round {model.round}: {target}")
        return
    target = out or run / "sample.png"
    write_samples(model, 64 if n is None else n, label, target, seed)
    say(f"samples of round {model.round}: {target}")


@app.command()
def score(
    run: RunFolder,
    kinds: Annotated[
        str | None, typer.Option("--with", metavar="A,B", help=f"auto, all, {', '.join(KINDS)}.")
    ] = None,
    n: Annotated[int | None, typer.Option(help="Number of images; default: 10,000.")] = None,
    checkpoint: CheckpointRound = None,
    reference: Annotated[
        str | None, typer.Option(help="Split to compare with: train or test.")
    ] = None,
    classifier: Annotated[
        str | None, typer.Option(help="auto, or train: a classifier of the data's own classes.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the samples.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "auto",
    data: DataFolder = None,
) -> None:
    """Score a trained herd, and add the values with their protocol to its record."""
    from remuda.model import scoring

    flags = {"kinds": kinds, "samples": n, "reference": reference, "classifier": classifier}
    settings = {name: flag for name, flag in flags.items() if flag is not None}
    path = None if data is None else str(data)
    values = scoring.score(
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
        typer.Argument(
            metavar="RUN...",
            help="Folders of runs; a folder of runs stands for every run in it.",
            autocompletion=complete_run,
        ),
    ],
    t: Annotated[
        int | None,
        typer.Option("--round", help="Round to compare; default: the last scored round."),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="text, csv, markdown, latex.")] = "text",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the table to this file.")
    ] = None,
) -> None:
    """Compare the cost and the scores of runs, with the spread over seeds."""
    from remuda.reports import compare

    comparison = compare.compare(runs, t)
    table = comparison.render(form)
    if form == "csv":  # a CSV file cannot contain the notes
        typer.echo("\n".join(comparison.notes), err=True)
    if out is None:
        typer.echo(table, nl=False)
    else:
        out.write_text(table, encoding="utf-8")
        say(str(out))


@app.command("report")
def write_report(run: RunFolder) -> None:
    """Write the report page of a run again."""
    from remuda.reports import page

    say(str(page.write(run)))


@app.command("status")
def show_status(
    run: RunFolder,
    watch: Annotated[
        bool, typer.Option("--watch", help="Update every second until the run ends.")
    ] = False,
) -> None:
    """Show how a run is doing: state, speed, time left, losses, and every rank."""
    from remuda.reports import status

    if watch:
        status.follow(run, console)
    else:
        status.show(run, console)
