"""Show the progress of a run: as a bar on a terminal, or as plain lines in a log."""

import statistics
import time
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live

from remuda.cli.best import BestScore
from remuda.record.rounds import describe, is_metric
from remuda.system import look, progress
from remuda.system.look import BarLine
from remuda.system.text import count
from remuda.training.progress import Progress

RECENT = 50  # rounds whose mean time predicts the time left
SHORT = {"generator_loss": "G", "discriminator_loss": "D"}  # names of metrics in the bar


class Pace:
    """Predict the time left from the times of recent rounds, with their scores and saves."""

    def __init__(self) -> None:
        self.times: deque[float] = deque(maxlen=RECENT)  # seconds per round
        self.start = self.last = time.monotonic()

    def round(self) -> None:
        """Note that a round has ended."""
        now = time.monotonic()
        self.times.append(now - self.last)
        self.last = now
        if len(self.times) == 2:
            self.times.popleft()  # the first round also compiles programs

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def left(self, rounds: int) -> float | None:
        """Return the predicted seconds for some more rounds, or None if nothing is known."""
        if not self.times:
            return None
        spent = time.monotonic() - self.last  # in the current round
        seconds = statistics.fmean(self.times)
        return max(0, rounds - 1) * seconds + max(0.0, seconds - spent) if rounds else 0.0


class Lines(Progress):
    """Print the first and the last round, and in between at most one line every few seconds."""

    def __init__(self, console: Console, interval: float = 5.0):
        self.console = console
        self.interval = interval  # seconds
        self.rounds = 0
        self.next_line = 0.0  # on time.monotonic's clock
        self.pace = Pace()
        self.best: BestScore | None = None

    def start(self, folder: Path, rounds: int, reached: int, num_members: int) -> None:
        self.rounds, self.pace, self.best = rounds, Pace(), BestScore(folder)
        if reached < rounds:
            members = count(num_members, "member")
            self.note(f"training {members} from round {reached + 1} to {rounds} in {folder}")

    def round(self, line: dict[str, Any]) -> None:
        now, t = time.monotonic(), line["round"]
        self.pace.round()
        if now < self.next_line and t < self.rounds:
            return
        self.next_line = now + self.interval
        parts = [f"round {t}/{self.rounds}", describe(line)]
        if "memory" in line:
            parts.append(look.memory(line["memory"]))
        if self.best is not None and (best := self.best.read()):
            parts.append(best)
        if t < self.rounds and (left := self.pace.left(self.rounds - t)) is not None:
            parts.append(f"{look.time(left)} left")
        self.note("  ".join(parts))

    def note(self, text: str) -> None:
        look.say(self.console, text)


class Bar(Progress):
    """Show the round, a bar, the time left, the best score, the memory, losses and the speed.

    Below it, show slow operations such as scoring. The bar reads the best score from the run
    folder; without ``reads_best``, its owner sets ``best``.
    """

    def __init__(self, console: Console, reads_best: bool = True):
        self.console, self.reads_best, self.best = console, reads_best, ""
        self._source: BestScore | None = None
        self.rounds = self.reached = 0
        self.line: dict[str, Any] = {}  # of the last round
        self.pace, self.is_live = Pace(), False
        self._entered = ExitStack()

    def start(self, folder: Path, rounds: int, reached: int, num_members: int) -> None:
        if reached < rounds:
            self.note(f"training {count(num_members, 'member')} in {folder}")
        self._source = BestScore(folder) if self.reads_best else None
        self.pace, self.rounds, self.reached = Pace(), rounds, reached

    def rewind(self, reached: int, num_members: int) -> None:
        self.reached = reached

    def round(self, line: dict[str, Any]) -> None:
        self.pace.round()
        self.line, self.reached = line, line["round"]
        if self._source is not None:
            self.best = self._source.read()

    def note(self, text: str) -> None:
        look.say(self.console, text)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        parts = [self._bar_line()] if self.rounds else []
        yield Group(*parts, *(progress.lines() if self.is_live else []))

    def _bar_line(self) -> BarLine:
        left = self.pace.left(self.rounds - self.reached)
        if not self.is_live:
            tail = f"in {look.time(self.pace.elapsed)}"
        else:
            tail = "" if left is None else f"{look.time(left)} left"
        head = f"round {self.reached:,}/{self.rounds:,}"
        more = [self.best] if self.best else []
        return BarLine(head, self.reached / self.rounds, tail, [*more, *texts(self.line)])

    def __enter__(self) -> Self:
        self.is_live = True
        with ExitStack() as stack:
            stack.enter_context(Live(self, console=self.console))
            stack.enter_context(progress.shown_by(self.note))
            stack.callback(self._end)
            self._entered = stack.pop_all()
        return self

    def _end(self) -> None:
        self.is_live = False

    def __exit__(self, *exception: object) -> None:
        self._entered.__exit__(*exception)  # type: ignore[arg-type]


def texts(line: dict[str, Any]) -> list[str]:
    """Return a round in short texts, the most important first."""
    means = {name: statistics.fmean(values) for name, values in line.items() if is_metric(values)}
    losses = [name for name in SHORT if name in means] or list(means)[:2]
    found = [look.memory(line["memory"])] if "memory" in line else []
    found += ["  ".join(f"{SHORT.get(name, name)} {look.loss(means[name])}" for name in losses)]
    if "images_per_second" in line:
        found.append(f"{line['images_per_second']:,.0f} images/s")
    found += [f"{name} {look.loss(value)}" for name, value in means.items() if name not in losses]
    return [text for text in found if text]
