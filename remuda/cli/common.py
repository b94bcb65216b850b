"""What all commands share: the application, its console, and flags that mean the same everywhere."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from remuda.cluster.environment import rank_from_environment
from remuda.engines import ENGINES
from remuda.training.progress import Bar, Lines, Progress

app = typer.Typer(
    help="Train GANs as a herd.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# One of several ranks speaks, and what a launcher shows it as a terminal is not one. Files and pipes have room for a
# whole table.
WIDE = 200
console = Console(
    quiet=rank_from_environment().rank > 0,
    force_terminal=False if rank_from_environment().num_ranks > 1 else None,
    width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE,
)

Recipe = Annotated[str, typer.Argument(metavar="RECIPE|FILE.toml", help="See `remuda list`.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]
Setting = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=C", help="Change a setting; may be repeated."),
]
DataFolder = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Folder with the data sets' files.")
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:N or auto.")]
EngineName = Annotated[
    str | None, typer.Option("--engine", help="Where members live: " + ", ".join(ENGINES) + ".")
]
NumRanks = Annotated[
    int | None, typer.Option("--ranks", help="Processes to start, with --engine mpi.")
]
Rounds = Annotated[int | None, typer.Option(help="Rounds to train.")]


def say(text: str) -> None:
    """Plain text as it is: paths stay in one piece."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def new_progress() -> Progress:
    return Bar(console) if console.is_terminal else Lines(console)


def assignments(flags: dict[str, object]) -> list[str]:
    """Flags that were given, as --set takes them; quoted, so that a text of digits stays a text."""
    return [f"{key}={_toml(value)}" for key, value in flags.items() if value is not None]


def _toml(value: object) -> str:
    return (
        str(value)
        if isinstance(value, int)
        else '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
    )
