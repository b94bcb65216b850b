"""Commands for runs of the strategy cellular: mixture, profile."""

from typing import Annotated

import typer
from rich.table import Table

import remuda
from remuda.cli.common import DataFolder, RunFolder, app, console, say
from remuda.experiments import mixtures
from remuda.reports.page import routines
from remuda.system.devices import find_device


@app.command("mixture")
def show_mixtures(
    run: RunFolder,
    checkpoint: Annotated[
        int | None, typer.Option(help="Round of the checkpoint; default the newest.")
    ] = None,
    n: Annotated[int, typer.Option(help="Also score so many samples of each mixture.")] = 0,
    optimise: Annotated[
        int, typer.Option(metavar="STEPS", help="First evolve the weights further, and save them.")
    ] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "auto",
    data: DataFolder = None,
) -> None:
    """Weights and distance of every neighbourhood's mixture of generators."""
    path = None if data is None else str(data)
    if optimise:
        before, model = mixtures.optimise(
            run, optimise, checkpoint=checkpoint, device=device, data=path, notify=say
        )
    else:
        before, model = None, remuda.load(run, checkpoint, str(find_device(device)), say)
    found = mixtures.mixtures(model)
    scores = mixtures.score(run, model, n, path, notify=say) if n else {}
    names = [value.name for value in next(iter(scores.values()), [])]
    table = Table(
        "cell", "row", "column", "weights", *(["before"] if before else []), "distance", *names, ""
    )
    for column in table.columns[4:]:
        column.overflow = "fold"
    for each in found:
        weights = "  ".join(f"{cell}:{weight:.3f}" for cell, weight in each.weights.items())
        cells = [str(each.cell), str(each.row), str(each.column), weights]
        cells += [f"{before[each.cell]:.5g}"] if before else []
        cells += [f"{each.distance:.5g}"]
        cells += [f"{value.value:.4g}" for value in scores.get(each.cell, [])] or [""] * len(names)
        table.add_row(*cells, "best" if each.is_best else "" if each.is_alive else "has left")
    console.print(table)
    if before:
        say(f"saved as the checkpoint of round {model.round}; samples are drawn from the best")


@app.command("profile")
def show_profile(run: RunFolder) -> None:
    """Seconds of the four routines of a cellular run, beside the paper's; draws them, too."""
    found = routines.profile(run)
    table = Table(*routines.HEADER, box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    for row in found.rows():
        table.add_row(*row)
    console.print(table)
    for note in found.notes():
        say(note)
    routines.draw(found, run / "profile.png")
    say(f"picture: {run / 'profile.png'}")
