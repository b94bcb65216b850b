"""The command that checks a part of the user's own."""

from typing import Annotated

import typer

from remuda.cli.common import Setting, app, say


@app.command("check")
def check_part(
    part: Annotated[
        str,
        typer.Argument(
            metavar="PART",
            help="Networks, a strategy, a loss or a data set: a name, or FILE.py:NAME.",
        ),
    ],
    settings: Setting = None,
) -> None:
    """Check that a part of your own keeps the contract of its kind."""
    from remuda.experiments import check

    num_problems = 0
    for outcome in check(part, settings or []):
        problem = f": {outcome.problem}" if outcome.problem else ""
        say(f"{outcome.verdict:<6} {outcome.title}{problem}")
        num_problems += outcome.verdict == "fails"
    if num_problems:
        raise typer.Exit(2)
