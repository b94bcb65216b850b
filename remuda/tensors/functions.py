"""Compare functions by value: two functions made of equal parts are equal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Partial:
    """Fix the first argument of a function.

    Engines use functions as keys to look up compiled programs. Unlike with ``functools.partial``,
    two partials of the same function and argument are equal. So every round reuses the program that
    the first round compiled.
    """

    fn: Callable[..., Any]
    first: Any

    def __call__(self, *rest: Any) -> Any:
        return self.fn(self.first, *rest)


def plain(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return an ordinary function; PyTorch 2.11 cannot compile every callable object."""
    if not isinstance(fn, Partial):
        return fn
    inner, first = fn.fn, fn.first
    return lambda *rest: inner(first, *rest)
