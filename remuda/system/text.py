"""Format numbers and lists consistently in all messages, and define how messages are sent."""

import difflib
from collections.abc import Callable, Iterable, Sequence

Notify = Callable[[str], None]  # receives messages for the user, such as "computing features"


def ignore(message: str) -> None:
    """Drop a message: a library call prints nothing unless it is given a ``notify``."""


def duration(seconds: float) -> str:
    """Return a time in its two largest units, such as ``3 min 20 s``; below 1 min, in seconds."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days:,} days {hours} h"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 rank`` or ``1,000 ranks``."""
    ending = "" if number == 1 else "s"
    return f"{number:,} {noun}{ending}"


def listed(words: Sequence[str]) -> str:
    """Join words as in a sentence: ``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a hint for a mistyped name: the nearest known names, or all known names.

    For ``lr``, ``generator_lr`` is nearer than ``r2``, because it has this word.
    """
    known = list(known)
    nearest = [other for other in known if name in other.split("_")]
    nearest = nearest or difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {' or '.join(nearest)}?" if nearest else f"known are {', '.join(known)}"
