"""The parts that several commands share: the application, its console and common arguments."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from remuda.cli.completion import complete_recipe, complete_run
from remuda.cli.hints import found_run, refuse_run
from remuda.cluster.environment import (
    SHOWS_PROGRESS,
    STARTED_BY_REMUDA,
    rank_from_environment,
)
from remuda.engines import ENGINES
from remuda.errors import UserError
from remuda.system import look

if TYPE_CHECKING:
    from remuda.training.progress import Progress

app = typer.Typer(
    help="Train GANs as a herd.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)


def _new_console() -> Console:
    """Return the console of this process. Of several ranks, only rank 0 prints."""
    this = rank_from_environment()
    is_rank = this.num_ranks > 1 or STARTED_BY_REMUDA in os.environ
    return Console(
        quiet=this.rank > 0,
        # A launcher may connect ranks to a pseudo-terminal. Do not draw a progress bar on it.
        force_terminal=False if is_rank else None,
        # Files and pipes have no width, so use one that fits the widest table.
        width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 200,
        emoji=False,  # names such as folder:cat: stay text
    )


console = _new_console()

Recipe = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE|FILE.toml",
        help="A recipe from `remuda list`, or a TOML file.",
        autocompletion=complete_recipe,
        callback=refuse_run,
    ),
]
RunFolder = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="Folder of a run.",
        autocompletion=complete_run,
        callback=found_run,
    ),
]
Setting = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=C", help="Change a setting; may be repeated."),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Execute code that the run's folder brings; read it first."),
]
DataFolder = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Folder with the files of the data sets."),
]
SkipBroken = Annotated[
    bool, typer.Option("--skip-broken", help="Leave out images that cannot be decoded.")
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:N or auto.")]
EngineName = Annotated[
    str | None, typer.Option("--engine", help=f"What runs the members: {', '.join(ENGINES)}.")
]
NumRanks = Annotated[
    int | None, typer.Option("--ranks", help="Processes to start; requires --engine mpi.")
]
Hosts = Annotated[
    str | None,
    typer.Option(
        "--hosts",
        metavar="A:N,B:N|FILE",
        help="Hosts and how many ranks to start on each, by ssh; requires --engine mpi.",
    ),
]
Restarts = Annotated[
    int | None, typer.Option(help="Restarts after the loss of rank 0 or of all ranks.")
]
Rounds = Annotated[int | None, typer.Option(help="Rounds to train.")]
CheckpointRound = Annotated[
    int | None, typer.Option(help="Round of the checkpoint; default: the newest.")
]
BestCheckpoint = Annotated[
    bool, typer.Option("--best", help="Use the best checkpoint by the score of run.keep_best.")
]


def chosen_checkpoint(number: int | None, best: bool) -> int | Literal["best"] | None:
    """Return the checkpoint that ``--checkpoint`` or ``--best`` selects."""
    if best and number is not None:
        raise UserError("--best cannot be combined with --checkpoint: use one of them")
    return "best" if best else number


def say(text: str) -> None:
    """Print plain text, without breaking long lines such as paths."""
    look.say(console, text)


def can_draw() -> bool:
    """Return whether stdout is a terminal that can show a bar."""
    return console.is_terminal and not console.is_dumb_terminal


def new_progress() -> "Progress":
    """Return a progress bar for a terminal, or plain lines for other output."""
    from remuda.cli.progress import Bar, Lines
    from remuda.cli.relay import Relay

    if SHOWS_PROGRESS in os.environ and rank_from_environment().rank == 0:
        return Relay(console)
    return Bar(console) if can_draw() else Lines(console)


@contextmanager
def shown_ranks() -> Iterator[Callable[[str], None] | None]:
    """Yield what shows the progress of ranks that this command starts; None for plain lines."""
    from remuda.cli.relay import Receiver

    if not can_draw():
        yield None
        return
    with Receiver(console) as receiver:
        yield receiver.show


def assignments(flags: dict[str, object]) -> list[str]:
    """Return the flags that the user gave, in the form that --set accepts."""
    return [f"{key}={_as_toml(value)}" for key, value in flags.items() if value is not None]


def _as_toml(value: object) -> str:
    if isinstance(value, int):
        return str(value).lower()  # of bools too
    # Quote strings, so that a string of digits does not become a number.
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
