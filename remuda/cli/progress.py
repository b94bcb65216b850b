"""Show the progress of a run: as a bar on a terminal, or as plain lines in a log."""

import time
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from remuda.record.rounds import describe
from remuda.system.text import count
from remuda.training.progress import Progress


class Lines(Progress):
    """Print the first and the last round, and in between at most one line every few seconds."""

    def __init__(self, console: Console, interval: float = 5.0):
        self.console = console
        self.interval = interval  # seconds
        self.rounds = 0
        self.next_line = 0.0  # on time.monotonic's clock

    def start(self, folder: Path, rounds: int, reached: int, num_members: int) -> None:
        self.rounds = rounds
        if reached >= rounds:
            self.note(
                f"{folder} has reached its last round, {reached}: nothing is left to train; to "
                "train longer, use remuda resume with a larger --rounds"
            )
        else:
            members = count(num_members, "member")
            self.note(f"training {members} from round {reached + 1} to {rounds} in {folder}")

    def round(self, line: dict[str, Any]) -> None:
        now = time.monotonic()
        if now < self.next_line and line["round"] < self.rounds:
            return
        self.next_line = now + self.interval
        self.note(f"round {line['round']}/{self.rounds}  {describe(line)}")

    def note(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


class Bar(Progress):
    """Show a progress bar with the time left, the mean losses and the images per second."""

    def __init__(self, console: Console):
        self.bar = RichProgress(
            TextColumn("round"),
            MofNCompleteColumn(),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
            console=console,
        )
        self.task = self.bar.add_task("", visible=False, total=None, text="")

    def start(self, folder: Path, rounds: int, reached: int, num_members: int) -> None:
        self.note(f"training {count(num_members, 'member')} in {folder}")
        self.bar.reset(self.task, total=rounds, completed=reached, visible=True)

    def round(self, line: dict[str, Any]) -> None:
        self.bar.update(self.task, completed=line["round"], text=describe(line))

    def note(self, text: str) -> None:
        self.bar.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self.bar.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.__exit__(*exception)  # type: ignore[arg-type]
