"""Commands for existing runs: sample, score, compare, report and status."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remuda.cli.common import (
    BestCheckpoint,
    CheckpointRound,
    DataFolder,
    RunFolder,
    Setting,
    Trust,
    app,
    chosen_checkpoint,
    console,
    say,
)
from remuda.cli.completion import complete_run
from remuda.cli.hints import found_class, found_point, found_run, found_runs
from remuda.errors import UserError
from remuda.scores.config import KINDS
from remuda.system import look

if TYPE_CHECKING:
    from remuda.scores.base import Value

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
Split = Annotated[str | None, typer.Option(help="Split to compare with: train or test.")]
ClassifierName = Annotated[
    str | None, typer.Option(help="auto, or train: a classifier of the data's own classes.")
]
Site = Annotated[
    int | None, typer.Option(metavar="RANK", help="Compare only with the data of this rank.")
]
SiteRanks = Annotated[
    int | None,
    typer.Option("--ranks", help="Processes to start, one per site, if ranks have their own data."),
]
SiteHosts = Annotated[
    str | None,
    typer.Option(
        "--hosts",
        metavar="A:N,B:N|FILE",
        help="Hosts of the sites and how many ranks to start on each, by ssh.",
    ),
]


KINDS_PER_TABLE = 3  # of a table of sites: more do not fit into a narrow terminal


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
    best: BestCheckpoint = False,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    trust: Trust = False,
) -> None:
    """Draw images from a trained herd."""
    from remuda.model.loading import load
    from remuda.model.samples import write_samples, write_walk

    if walk and label is not None:
        raise UserError(
            "--label cannot be combined with --walk: write the class into both points, for "
            "instance --walk 3:0 3:1"
        )
    if frames is not None and not walk:
        raise UserError("--frames requires --walk: use --n for the number of images")
    model = load(run, chosen_checkpoint(checkpoint, best), device, say, trust)
    if walk:
        target = out or run / "walk.png"
        start, end = (found_point(point, model.facts.classes) for point in walk)
        write_walk(model, start, end, target, frames, 1 if n is None else n, seed, say)
        say(f"walk of round {model.round}: {target}")
        return
    if label is not None:
        label = found_class(label, model.facts.classes)
    target = out or run / "sample.png"
    write_samples(model, 64 if n is None else n, label, target, seed)
    say(f"samples of round {model.round}: {target}")


@app.command()
def score(
    run: RunFolder,
    kinds: Annotated[
        str | None,
        typer.Option("--with", metavar="A,B", help=f"auto, all, {', '.join(KINDS.own)}."),
    ] = None,
    n: Annotated[int | None, typer.Option(help="Number of images; default: 10,000.")] = None,
    checkpoint: CheckpointRound = None,
    best: BestCheckpoint = False,
    reference: Split = None,
    classifier: ClassifierName = None,
    seed: Annotated[int, typer.Option(help="Seed of the samples.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "auto",
    data: DataFolder = None,
    site: Site = None,
    ranks: SiteRanks = None,
    hosts: SiteHosts = None,
    given: Setting = None,
    trust: Trust = False,
) -> None:
    """Score a trained herd, and add the values with their protocol to its record."""
    from remuda.cli.ranks import scoring_ranks
    from remuda.model import scoring

    flags = {"kinds": kinds, "samples": n, "reference": reference, "classifier": classifier}
    settings = {name: flag for name, flag in flags.items() if flag is not None}
    path = None if data is None else str(data)
    with scoring_ranks(run, ranks, hosts, trust) as communicator:
        values = scoring.score(
            run,
            checkpoint=chosen_checkpoint(checkpoint, best),
            device=device,
            data=path,
            seed=seed,
            notify=say,
            trust=trust,
            assignments=given or [],
            site=site,
            communicator=communicator,
            **settings,
        )
    if values:  # of several ranks, only rank 0 has them
        _print_scores(values)
        _print_sites(values)


def _print_sites(values: "list[Value]") -> None:
    """Print the scores against the images of each site, if there are several."""
    from remuda.scores.directions import direction, worst

    values = [value for value in values if value.sites]
    for start in range(0, len(values), KINDS_PER_TABLE):
        part = values[start : start + KINDS_PER_TABLE]
        kinds = [value.name.split("_")[0] for value in part]
        table = look.table("rank", "host", "images", *kinds, right=True)
        columns = []
        for value in part:
            found = [site["value"] for site in value.sites or []]
            last = worst(found, direction(value.name, value.better))
            texts = ["" if number is None else look.number(number) for number in found]
            columns.append([f"{text} worst" if i == last else text for i, text in enumerate(texts)])
        for i, site in enumerate(part[0].sites or []):
            facts = str(site["rank"]), site["host"], f"{site['images']:,}"
            table.add_row(*facts, *(column[i] for column in columns))
        console.print(table)


def _print_scores(values: "list[Value]") -> None:
    table = look.table("score", "value", "spread", "real images", right=True)
    for value in values:
        spread = "" if value.spread is None else look.number(value.spread)
        floor = ""
        if value.floor is not None:
            floor = f"{look.number(value.floor)} ({value.floor_samples:,})"
        table.add_row(value.name, look.number(value.value), spread, floor)
    console.print(table)


@app.command("compare")
def show_comparison(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Folders of runs; a folder of runs stands for every run in it.",
            autocompletion=complete_run,
            callback=found_runs,
        ),
    ],
    t: Annotated[
        int | None,
        typer.Option("--round", help="Round to compare; default: the last scored round."),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="text, csv, markdown, latex or html; default: by --out."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write to this file; .html makes a page with curves."),
    ] = None,
) -> None:
    """Compare the cost and the scores of runs, with the spread over seeds."""
    from remuda.reports import compare

    if form is None:
        form = compare.format_of(out) if out else "text"
    comparison = compare.compare(runs, t)
    table = comparison.render(form)
    if out is not None:
        try:
            out.write_text(table, encoding="utf-8")
        except OSError as error:
            raise UserError(
                f"cannot write {out} ({error.strerror}): choose another file with --out"
            ) from None
    if form == "csv":  # a CSV file cannot contain the notes
        typer.echo("\n".join(comparison.notes), err=True)
    if out is None:
        typer.echo(table, nl=False)
    else:
        say(str(out))


@app.command("report")
def write_report(run: RunFolder) -> None:
    """Write the report page of a run again."""
    from remuda.reports import page
    from remuda.reports.page.run import explained

    with explained(run):
        say(str(page.write(run)))


@app.command("status")
def show_status(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|FOLDER",
            help="Folder of a run, or a folder of runs.",
            autocompletion=complete_run,
            callback=found_run,
        ),
    ],
    watch: Annotated[
        bool, typer.Option("--watch", help="Update until the run ends, or all runs in the folder.")
    ] = False,
) -> None:
    """Show how a run is doing: state, speed, time left, losses, ranks; or list a folder's runs."""
    from remuda.reports import status
    from remuda.reports.index import terminal

    is_run = (run / "config.toml").is_file() or not run.is_dir()
    shown = status if is_run else terminal
    if watch:
        shown.follow(run, console)
    else:
        shown.show(run, console)
