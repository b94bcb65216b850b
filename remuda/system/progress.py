"""Show how far slow operations have come, such as downloads, features and samples.

By default, library calls print nothing. To show their progress, a program names a console:

    with shown_on(Console(stderr=True)):
        load(DataConfig(name="mnist"))

An operation is a ``tracked`` context. Functions that do its work call ``step``:

    with tracked("drawing samples", 10_000, "images"):
        step(500)  # often in another module

A terminal shows a bar. Other output gets a line about every minute, for operations that take long.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live

from remuda.system import look
from remuda.system.look import BarLine

DELAY = 0.5  # seconds after which an operation appears on a terminal
FIRST_LINE, LINE_EVERY = 10.0, 60.0  # seconds until the first plain line, and between two lines
PATIENCE = 120.0  # seconds; if an operation takes longer, its advice is printed
MEASURED = 3.0  # seconds after which the estimate is good enough for advice

_consoles: list[tuple[Console, bool]] = []  # consoles of the open contexts, innermost last
_hosts: list[Callable[[str], None]] = []  # displays that also show operations, innermost last
_tasks: list["Task"] = []  # open operations of all threads
_own = threading.local()  # ``tasks``: the open operations of a thread, innermost last


@dataclass(eq=False)
class Task:
    """An operation and how far it has come."""

    title: str
    total: int | None  # None if it is not known
    unit: str = ""  # such as "images"
    advice: str = ""  # how to wait less
    format: Callable[[float], str] = "{:,.0f}".format  # of amounts
    done: int = 0
    start: float = field(default_factory=lambda: time.monotonic())
    spent: float = 0.0  # seconds from the start to the last step
    next_line: float = FIRST_LINE  # seconds after the start
    writes_lines: bool = False

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def advance(self, amount: int) -> None:
        """Note that this much more is done."""
        self.done += amount
        self.spent = self.elapsed
        left = self.seconds_left()
        is_slow = left is not None and self.elapsed + left > PATIENCE
        if self.advice and is_slow and self.elapsed > MEASURED:
            text, self.advice = self.advice, ""
            say(f"{self.title} takes about {look.time(self.elapsed + (left or 0))}: {text}")
        if self.writes_lines and self.elapsed > self.next_line:
            self.next_line = self.elapsed + LINE_EVERY
            say(f"{self.title}: {self.describe()}")

    def seconds_left(self) -> float | None:
        """Predict the remaining seconds, or return None if nothing is known."""
        if not self.done or not self.total:
            return None
        left = self.spent / self.done * max(0, self.total - self.done)
        return max(0.0, left - (self.elapsed - self.spent))

    def describe(self) -> str:
        """Return the state in words, such as ``500 of 10,000 images, 12 s left``."""
        if self.total is None:
            return f"{self.format(self.done)} {self.unit}".strip()
        amount = f"{self.format(self.done)} of {self.format(self.total)} {self.unit}".strip()
        left = self.seconds_left()
        return amount if left is None else f"{amount}, {look.time(left)} left"

    def line(self) -> BarLine:
        """Return the line for a terminal."""
        left = self.seconds_left()
        tail = "" if left is None else f"{look.time(left)} left"
        fraction = self.done / self.total if self.total else 0.0
        amount = f"{self.format(self.done)}/{self.format(self.total)}" if self.total else ""
        return BarLine(self.title, fraction, tail, [f"{amount} {self.unit}".strip()])


def console() -> Console:
    """Return the console for progress; it prints nothing unless a program named one."""
    return _consoles[-1][0] if _consoles else Console(quiet=True)


@contextmanager
def shown_on(console: Console, has_tasks: bool = True) -> Iterator[None]:
    """Show the progress of slow operations on a console, in all threads.

    Without ``has_tasks``, print only messages.
    """
    _consoles.append((console, has_tasks))
    try:
        yield
    finally:
        _consoles.pop()


@contextmanager
def shown_by(note: Callable[[str], None]) -> Iterator[None]:
    """Let another display draw ``lines`` and print messages, because only one can use a terminal.

    ``note`` prints a message above this display.
    """
    _hosts.append(note)
    try:
        yield
    finally:
        _hosts.remove(note)


def say(text: str) -> None:
    """Print a message where progress is shown."""
    if _hosts:
        _hosts[-1](text)
    else:
        look.say(console(), text)


def lines() -> list[BarLine]:
    """Return a line for each operation that has been running for a moment."""
    return [task.line() for task in list(_tasks) if task.elapsed > DELAY]


@contextmanager
def tracked(
    title: str,
    total: int | None,
    unit: str = "",
    advice: str = "",
    format: Callable[[float], str] = "{:,.0f}".format,
) -> Iterator[Task]:
    """Show the progress of the operation in this context.

    If it will take more than two minutes, print the advice once.
    """
    task = Task(title, total, unit, advice, format)
    own: list[Task] = _own.__dict__.setdefault("tasks", [])
    with _display(task):
        own.append(task)
        _tasks.append(task)
        try:
            yield task
        finally:
            own.remove(task)
            _tasks.remove(task)


def step(amount: int = 1) -> None:
    """Advance the innermost operation of this thread, if there is one."""
    own: list[Task] = _own.__dict__.setdefault("tasks", [])
    if own:
        own[-1].advance(amount)


def _display(task: Task) -> AbstractContextManager[object]:
    """Return a context in which an operation is visible."""
    if not _consoles or not _consoles[-1][1]:
        task.advice = ""
        return nullcontext()
    if _hosts or _tasks:  # another display shows it
        return nullcontext()
    place = console()
    if place.is_terminal and not place.is_dumb_terminal:
        return _live(place)
    task.writes_lines = True
    return nullcontext()


@contextmanager
def _live(place: Console) -> Iterator[None]:
    """Draw all operations on a terminal until the first one ends."""
    live = Live(console=place, transient=True, get_renderable=lambda: Group(*lines()))
    with live, shown_by(lambda text: look.say(place, text)):
        yield
