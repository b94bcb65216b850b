"""Functions as values: two functions made of equal parts are equal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Partial:
    """A function with its first argument fixed.

    Engines look up compiled programs by the function. Unlike ``functools.partial``, two partials of
    the same function and argument are equal, so that every round finds the program of the first.
    """

    fn: Callable[..., Any]
    first: Any

    @property
    def __name__(self) -> str:  # read by torch.func.vmap, also while it is compiled
        return self.fn.__name__

    def __call__(self, *rest: Any) -> Any:
        return self.fn(self.first, *rest)
