"""Commands for runs of the cellular strategy: mixture and profile."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from remuda.cli.common import CheckpointRound, DataFolder, RunFolder, Trust, app, console, say
from remuda.system import look

if TYPE_CHECKING:
    from remuda.strategies.facts import Mixture


@app.command("mixture")
def show_mixtures(
    run: RunFolder,
    checkpoint: CheckpointRound = None,
    n: Annotated[int, typer.Option(help="Also score this many samples of each mixture.")] = 0,
    optimise: Annotated[
        int, typer.Option(metavar="STEPS", help="First evolve the weights and save them.")
    ] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "auto",
    data: DataFolder = None,
    trust: Trust = False,
) -> None:
    """Show the weights and the distance of each neighbourhood's mixture of generators."""
    from remuda.experiments import mixtures
    from remuda.model.loading import load
    from remuda.system.devices import find_device

    path = None if data is None else str(data)
    # Later steps may execute the code that is loaded here.
    model = load(run, checkpoint, str(find_device(device)), say, trust)
    before = None
    if optimise:
        before, model = mixtures.optimise(
            run, optimise, checkpoint=checkpoint, device=device, data=path, notify=say
        )
    found = mixtures.mixtures(model)
    scores = mixtures.score(run, model, n, path, notify=say) if n else {}
    console.print(_table(found, before, scores))
    if before:
        say(f"saved as the checkpoint of round {model.round}; samples come from the best mixture")


def _table(found: "list[Mixture]", before: Any, scores: dict[int, Any]) -> Table:
    """Return a table with a row per mixture; ``before`` has the distances before optimisation."""
    names = [value.name for value in next(iter(scores.values()), [])]
    earlier = ["before"] if before else []
    numbers = [*earlier, "distance", *names]
    columns = "cell", "row", "column", "weights", *numbers, ""
    table = look.table(*columns, right=["cell", "row", "column", *numbers])
    for column in table.columns[4:]:
        column.overflow = "fold"
    for each in found:
        weights = "  ".join(f"{cell}:{weight:.3f}" for cell, weight in each.weights.items())
        cells = [str(each.cell), str(each.row), str(each.column), weights]
        if before:
            cells.append(f"{before[each.cell]:.5g}")
        cells.append(f"{each.distance:.5g}")
        found_scores = [look.number(value.value) for value in scores.get(each.cell, [])]
        cells += found_scores or [""] * len(names)
        table.add_row(*cells, _remark(each))
    return table


def _remark(mixture: "Mixture") -> str:
    if mixture.is_best:
        return "best"
    return "" if mixture.is_alive else "has left"


@app.command("profile")
def show_profile(run: RunFolder) -> None:
    """Show and draw the times of a cellular run's four routines next to the paper's."""
    from remuda.reports.page import routines
    from remuda.reports.page.run import explained

    table = look.table(*routines.HEADER, right=True)
    table.columns[0].no_wrap = True
    with explained(run):
        found = routines.profile(run)
        for row in found.rows():
            table.add_row(*row)
    console.print(table)
    for note in found.notes():
        say(note)
    routines.draw(found, run / "profile.png")
    say(f"picture: {run / 'profile.png'}")
