"""The outcome of one check, and how to run checks one after the other."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from remuda.errors import explain, is_user_error


class Outcome(NamedTuple):
    """What one check has found."""

    title: str  # the promise
    problem: str = ""  # why the part breaks it; empty if it keeps the promise
    is_fatal: bool = True  # whether a problem means that the part does not work

    @property
    def verdict(self) -> str:
        """One word: ok, fails, or note for a limit that is no failure."""
        if not self.problem:
            return "ok"
        return "fails" if self.is_fatal else "note"


# A promise, and the function that returns why it is broken, or an empty text.
Promise = tuple[str, Callable[[], str]]


def run_all(promises: Iterable[Promise]) -> Iterator[Outcome]:
    """Yield the outcome of every promise; an error of the part is a problem."""
    for title, find_problem in promises:
        try:
            yield Outcome(title, find_problem())
        except Exception as error:
            yield Outcome(title, problem_of(error))


def problem_of(error: Exception) -> str:
    """Return an error of the user's own part in one line."""
    if is_user_error(error):
        return explain(error)
    if os.environ.get("REMUDA_TRACEBACK"):
        raise error
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message} (REMUDA_TRACEBACK=1 shows where it failed)"
