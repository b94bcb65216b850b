"""Show the progress of ranks on the terminal of the command that has started them.

mpirun forwards the output of the ranks, but the ranks do not own the terminal. So rank 0 writes
each event as a line of JSON, and the launcher's process draws the bar.
"""

import json
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from rich.console import Console

from remuda.cli.best import BestScore
from remuda.cli.progress import Bar
from remuda.cluster.markers import PROGRESS
from remuda.record.rounds import is_metric
from remuda.system import look
from remuda.training.progress import Progress

KEPT = ("round", "images_per_second", "memory")  # numbers of a round that the bar shows


class Relay(Progress):
    """Send the events of a run from rank 0 to the launcher, through stdout."""

    def __init__(self, console: Console):
        self.console = console
        self.best: BestScore | None = None

    def start(self, folder: Path, rounds: int, reached: int, num_members: int) -> None:
        self.best = BestScore(folder)
        self._send("start", [str(folder), rounds, reached, num_members])

    def rewind(self, reached: int, num_members: int) -> None:
        self._send("rewind", [reached, num_members])

    def round(self, line: dict[str, Any]) -> None:
        # Means are enough, and mpirun may break long lines.
        short = {name: line[name] for name in KEPT if name in line}
        for name, values in line.items():
            if is_metric(values):
                short[name] = [float(f"{statistics.fmean(values):.5g}")]
        self._send("round", [short, self.best.read() if self.best else ""])

    def note(self, text: str) -> None:
        look.say(self.console, text)

    def __enter__(self) -> Self:
        self._send("enter", [])
        return self

    def __exit__(self, *exception: object) -> None:
        self._send("exit", [])

    def _send(self, event: str, values: list[Any]) -> None:
        sys.stdout.write(f"{PROGRESS}{json.dumps([event, *values])}\n")
        sys.stdout.flush()


class Receiver:
    """Draw the bar of the events that rank 0 sends. The context ends the bar if rank 0 is lost."""

    def __init__(self, console: Console):
        self.console = console
        self._open = ExitStack()  # contains the bar while it is visible
        self._bar = Bar(console, reads_best=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()

    def show(self, line: str) -> None:
        """Receive a line that rank 0 has sent."""
        try:
            event, *values = json.loads(line)
        except ValueError:  # another rank has written into the line
            return
        if event == "enter":
            self._open.close()  # of an earlier rank 0
            self._bar = self._open.enter_context(Bar(self.console, reads_best=False))
        elif event == "start":
            folder, *numbers = values
            self._bar.start(Path(folder), *numbers)
        elif event == "rewind":
            self._bar.rewind(*values)
        elif event == "round":
            shown, self._bar.best = values
            self._bar.round(shown)
        elif event == "exit":
            self._open.close()
