"""The command that reproduces tables and figures of the papers: reproduce."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remuda.cli.common import DataFolder, Device, Setting, app, console, new_progress, say
from remuda.cli.completion import complete_result, complete_run
from remuda.errors import UserError
from remuda.system import look
from remuda.system.text import count

if TYPE_CHECKING:
    from remuda.experiments.papers import Options, Outcome, Result


Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]",
        help="A table or figure, such as cellular-table-3; a paper, to list it; default: list all.",
        autocompletion=complete_result,
    ),
]
Runs = Annotated[
    list[Path] | None,
    typer.Option(
        "--from",
        metavar="RUN",
        help="Do not train: use this run, or a folder of runs; may be repeated.",
        autocompletion=complete_run,
    ),
]
Short = Annotated[
    bool, typer.Option("--short", help="Train only a few minutes, to see that it works.")
]
Seeds = Annotated[
    int | None, typer.Option(help="Seeds of every run; default: as in the paper, or 1.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the runs that it needs, and stop.")]
Markdown = Annotated[
    bool, typer.Option("--markdown", help="Print the list of all names as Markdown.")
]


@app.command("reproduce")
def reproduce_result(
    name: Name = None,
    short: Short = False,
    out: Annotated[
        Path, typer.Option(metavar="DIR", file_okay=False, help="Folder for runs and results.")
    ] = Path("runs/reproduce"),
    seeds: Seeds = None,
    data: DataFolder = None,
    device: Device = None,
    settings: Setting = None,
    runs: Runs = None,
    dry_run: DryRun = False,
    markdown: Markdown = False,
) -> None:
    """Reproduce a table or figure of a paper by its name; without a name, list all."""
    from remuda.experiments import papers

    if markdown:
        return typer.echo(papers.as_markdown(), nl=False)
    if name is None or name in [paper.name for paper in papers.PAPERS]:
        given = {"--short": short, "--seeds": seeds, "--data": data, "--device": device}
        given |= {"--set": settings, "--from": runs, "--dry-run": dry_run}
        _refuse_options([flag for flag, value in given.items() if value not in (None, False)])
        return _list(name)
    if seeds is not None and seeds < 1:
        raise UserError(f"--seeds must be at least 1, not {seeds}")
    options = papers.Options(
        out=out,
        short=short,
        seeds=seeds or 0,
        device=device,
        data=data,
        settings=settings or [],
        new_progress=new_progress,
        notify=say,
    )
    _run(papers.find(name), runs, options, dry_run)


def _refuse_options(flags: list[str]) -> None:
    if flags:
        raise UserError(
            f"{', '.join(flags)} needs the name of a table or figure, such as md-gan-figure-3-mlp; "
            "remuda reproduce, without options, lists all names"
        )


def _run(
    results: "list[Result]", runs: list[Path] | None, options: "Options", dry_run: bool
) -> None:
    from remuda.experiments import papers

    if dry_run and runs:
        raise UserError(
            "--from trains no runs, so --dry-run has nothing to list: leave one of them out"
        )
    if dry_run:
        return _show_plan(results, options)
    outcomes = [_reproduce(result, runs, options) for result in results]
    for outcome in outcomes:
        for path in outcome.files:
            say(f"{outcome.result.name}: {path}")
    papers.refuse_gaps(outcomes)


def _reproduce(result: "Result", runs: list[Path] | None, options: "Options") -> "Outcome":
    from remuda.experiments import papers

    if runs:
        return papers.redraw(result, papers.evidence_from(result, runs, options), options)
    return papers.reproduce(result, options)


def _list(name: str | None) -> None:
    """List the tables and figures of all papers, or of one."""
    from remuda.experiments import papers

    for paper in [paper for paper in papers.PAPERS if name in (None, paper.name)]:
        say(f"\n{paper.source}")
        table = look.table("name", "content", "state")
        table.columns[0].no_wrap = True
        table.columns[2].overflow = "fold"
        for row in papers.rows(paper):
            table.add_row(*row)
        console.print(table, markup=False, highlight=False)
        say(papers.others_of(paper))
    say("\nTo reproduce one: remuda reproduce NAME --short, then without --short")


def _show_plan(results: "list[Result]", options: "Options") -> None:
    from remuda.experiments import papers

    runs = [run for result in results for run in papers.plan(result, options)]
    for run in runs:
        say(f"{run.folder}: {count(run.rounds, 'round')}, {run.state}")
        say(f"    {run.command}")
    known = [run.seconds for run in runs if run.seconds is not None]
    say(f"{count(len(runs), 'run')}; nothing was trained" + _total(known, len(runs)))


def _total(seconds: list[float], num_runs: int) -> str:
    from remuda.system.text import duration

    if not seconds or len(seconds) < num_runs:
        return ""
    return f"; the remaining rounds take about {duration(sum(seconds))}"
