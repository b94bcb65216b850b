"""Check a line of rounds.jsonl, and describe it in one line of text."""

import statistics
from typing import Any

from remuda.record.files import Line, is_number, is_whole, require


def parse_round(line: Line) -> Line:
    """Check the fields that every round has, but not the metrics, which strategies may add."""
    require(line, "round", is_whole)
    for name in ("seconds", "images", "images_per_second"):
        require(line, name, is_number)
    for name in ("bytes", "memory"):  # older runs lack them
        if name in line:
            require(line, name, is_number)
    if "routines" in line and not _is_table_of_seconds(line["routines"]):
        raise TypeError("routines is not a table of seconds")
    for name in ("mixture_weights", "neighbours"):
        if name in line:
            require(line, name, _is_table)
    if "moved_from" in line:
        require(line, "moved_from", _has_members)
    return line


def is_metric(value: Any) -> bool:
    """Return whether a value is a metric: a list with one number per member."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(number, int | float) for number in value)
    )


def describe(line: Line) -> str:
    """Return a line of text with the mean of each metric over the members, and the speed."""
    means = [
        f"{name} {_short(statistics.fmean(values))}"
        for name, values in line.items()
        if is_metric(values)
    ]
    return "  ".join([*means, f"{line['images_per_second']:,.0f} images/s"])


def _short(value: float) -> str:
    return f"{value:.3f}" if abs(value) >= 0.01 or value == 0 else f"{value:.1e}"


def _is_table(value: Any) -> bool:
    """Return whether a value has a list of numbers for each member."""
    return isinstance(value, list) and all(map(is_metric, value))


def _has_members(value: Any) -> bool:
    return isinstance(value, dict) and is_metric(value.get("members"))


def _is_table_of_seconds(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_number, value.values()))
