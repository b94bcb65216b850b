"""Describe where the time of a start or resume went, as environment.json records it."""

from typing import Any

from remuda.record.files import is_number
from remuda.system.text import duration

NAMES = {
    "start": "starting",
    "rounds": "training",
    "show": "samples and scores",
    "save": "saving",
    "page": "page",
    "other": "other",
}
SHORT = 0.05  # seconds; a line of text omits shorter parts


def parts(entry: dict[str, Any]) -> dict[str, float]:
    """Return the seconds of an entry of environment.json by readable name, in a fixed order.

    The dict is empty if the entry has none, because it is older or the run was killed.
    """
    seconds = entry.get("seconds")
    if not isinstance(seconds, dict):
        return {}
    names = [name for name in NAMES if is_number(seconds.get(name))]
    return {NAMES[name]: float(seconds[name]) for name in names}


def describe(entry: dict[str, Any]) -> str:
    """Return a line such as ``took 34.0 s: starting 4.0 s, training 28.2 s, saving 0.1 s``."""
    found = parts(entry)
    shown = [f"{name} {duration(value)}" for name, value in found.items() if value >= SHORT]
    return f"took {duration(sum(found.values()))}: {', '.join(shown)}" if shown else ""
