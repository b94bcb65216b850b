"""Who watches a run: a progress bar on a terminal, plain lines elsewhere, TensorBoard's event files."""

import statistics
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from remuda.errors import UserError
from remuda.system.text import count


class Progress:
    """What a run tells; this one listens to nothing."""

    def start(self, folder: Path, rounds: int, reached: int, num_members: int) -> None: ...

    def round(self, line: dict[str, Any]) -> None: ...

    def note(self, text: str) -> None:
        """A sentence for the user, at any time and from any thread."""

    def __enter__(self):
        return self

    def __exit__(self, *exception: object) -> None: ...


Silent = Progress


class Lines(Progress):
    """A line now and then, for logs: the first and last round, and at most one every few seconds."""

    def __init__(self, console: Console, interval: float = 5.0):
        self.console, self.interval = console, interval
        self.rounds, self.due = 0, 0.0

    def start(self, folder: Path, rounds: int, reached: int, num_members: int) -> None:
        self.rounds = rounds
        if reached >= rounds:
            return self.note(
                f"{folder} has reached round {reached}, its last: nothing is left to train"
            )
        self.note(
            f"training {count(num_members, 'member')} from round {reached + 1} to {rounds} in {folder}"
        )

    def round(self, line: dict[str, Any]) -> None:
        now = time.monotonic()
        if now < self.due and line["round"] < self.rounds:
            return
        self.due = now + self.interval
        self.note(f"round {line['round']}/{self.rounds}  {describe(line)}")

    def note(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


class Bar(Progress):
    """A bar with the time left, the mean losses and the pace."""

    def __init__(self, console: Console):
        self.bar = RichProgress(
            TextColumn("round"),
            MofNCompleteColumn(),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
            console=console,
        )

    def start(self, folder: Path, rounds: int, reached: int, num_members: int) -> None:
        self.note(f"training {count(num_members, 'member')} in {folder}")
        self.task = self.bar.add_task("", total=rounds, completed=reached, text="")

    def round(self, line: dict[str, Any]) -> None:
        self.bar.update(self.task, completed=line["round"], text=describe(line))

    def note(self, text: str) -> None:
        self.bar.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self):
        self.bar.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.__exit__(*exception)  # type: ignore[arg-type]


class EventFiles(Progress):
    """TensorBoard's event files: every metric of every member, and the pace."""

    def __init__(self, folder: Path):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError(
                "run.tensorboard=true needs the package tensorboard: pip install 'remuda[tensorboard]'"
            ) from None
        self.open = lambda reached: SummaryWriter(str(folder), purge_step=reached + 1)
        self.writer = None

    def start(self, folder: Path, rounds: int, reached: int, num_members: int) -> None:
        self.writer = self.open(reached)

    def round(self, line: dict[str, Any]) -> None:
        assert self.writer is not None
        for name, values in line.items():
            if isinstance(values, list):
                for member, value in enumerate(values):
                    self.writer.add_scalar(f"{name}/member {member}", value, line["round"])
        self.writer.add_scalar("images_per_second", line["images_per_second"], line["round"])

    def __exit__(self, *exception: object) -> None:
        if self.writer is not None:
            self.writer.close()


class Several(Progress):
    """Tells them all."""

    def __init__(self, *listeners: Progress):
        self.listeners = listeners

    def start(self, folder: Path, rounds: int, reached: int, num_members: int) -> None:
        for listener in self.listeners:
            listener.start(folder, rounds, reached, num_members)

    def round(self, line: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener.round(line)

    def note(self, text: str) -> None:
        for listener in self.listeners:
            listener.note(text)

    def __enter__(self):
        for listener in self.listeners:
            listener.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        for listener in reversed(self.listeners):
            listener.__exit__(*exception)


def describe(line: dict[str, Any]) -> str:
    """Means over the members, and the pace."""
    means = [
        f"{name} {_short(statistics.fmean(values))}"
        for name, values in line.items()
        if isinstance(values, list)
    ]
    return "  ".join([*means, f"{line['images_per_second']:,.0f} images/s"])


def _short(value: float) -> str:
    return f"{value:.3f}" if abs(value) >= 0.01 or value == 0 else f"{value:.1e}"
