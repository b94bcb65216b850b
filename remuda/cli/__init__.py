"""The command line: its commands are in remuda.commands; here is how it starts, stops and complains."""

import io
import os
import signal
import sys
from typing import Annotated

import typer
from rich.console import Console

import remuda
from remuda.cli import cellular, facts, results, training
from remuda.cli.common import app, say
from remuda.errors import Interrupted, ReportedElsewhere, UserError, explain, is_user_error
from remuda.system import progress
from remuda.system.signals import STOP_SIGNALS

# Importing the modules has registered their commands.
__all__ = ["app", "cellular", "facts", "main", "results", "training"]


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"remuda {remuda.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Train GANs as a herd."""


def _stop_politely(*_: object) -> None:
    """Once: a second signal, which time limits like to send along, would cut off what the first one has saved."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _is_interrupted(error: BaseException | None) -> bool:
    """Whether it comes from a signal to stop."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def main() -> None:
    """Run a command; what the user can put right is one sentence and status 2."""
    for number in STOP_SIGNALS:
        signal.signal(number, _stop_politely)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know the arrow of a table
    errors = Console(stderr=True)
    try:
        with progress.shown_on(errors):
            app()
    except (Interrupted, KeyboardInterrupt) as stop:
        errors.print(str(stop) or "stopped", highlight=False, markup=False, soft_wrap=True)
        sys.exit(130)
    except ReportedElsewhere as error:
        sys.exit(error.status)
    except SystemExit as end:
        if _is_interrupted(end):  # typer keeps such an exception to itself
            errors.print("stopped", highlight=False)
        raise
    except (UserError, OSError, MemoryError, RuntimeError) as error:
        if os.environ.get("REMUDA_TRACEBACK") or not is_user_error(error):
            raise
        errors.print(
            f"remuda: {explain(error)}", style="red", highlight=False, markup=False, soft_wrap=True
        )
        sys.exit(2)
