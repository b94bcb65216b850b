"""Measure where the time of a run goes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from remuda.system import processes

_command: list[float] = []  # when this process's command started, until a stopwatch uses it


class Stopwatch:
    """Add up seconds by name.

    A stopwatch starts when it is created. The first one of a command starts with the command's
    process, see ``start_command``.
    """

    def __init__(self) -> None:
        self.began = _command.pop() if _command else time.perf_counter()
        self.seconds: dict[str, float] = {}

    @property
    def total(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.began

    def add(self, name: str, seconds: float) -> None:
        """Add seconds under this name."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the duration of a ``with`` block under this name."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - began)

    def report(self) -> dict[str, float]:
        """Return the seconds by name, rounded, with their ``total``; ``other`` is the rest."""
        total = self.total
        rest = max(0.0, total - sum(self.seconds.values()))
        by_name = {**self.seconds, "other": rest, "total": total}
        return {name: round(seconds, 3) for name, seconds in by_name.items()}


def start_command() -> None:
    """Let the next stopwatch start with this process, so that it includes imports."""
    _command[:] = [time.perf_counter() - processes.age()]
