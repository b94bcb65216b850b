"""The application with all its commands. Importing a module registers its commands."""

from typing import Annotated

import typer

from remuda.cli.common import app, say
from remuda.system.version import __version__

# The help text lists the commands in this order.
# isort: off
from remuda.cli import training
from remuda.cli import joining
from remuda.cli import studies
from remuda.cli import papers
from remuda.cli import results
from remuda.cli import watching
from remuda.cli import exporting
from remuda.cli import facts
from remuda.cli import listing
from remuda.cli import checking
from remuda.cli import cellular
# isort: on

__all__ = [
    "app",
    "cellular",
    "checking",
    "exporting",
    "facts",
    "joining",
    "listing",
    "papers",
    "results",
    "studies",
    "training",
    "watching",
]


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"remuda {__version__}")
        raise typer.Exit


@app.callback()
def start(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Train GANs as a herd."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)
        raise typer.Exit(2)
