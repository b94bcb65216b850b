"""Read JSON and JSON lines from a run folder, and report damaged files consistently."""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from remuda.errors import UserError

Line = dict[str, Any]  # one JSON object

LAST_BYTES = 1 << 18  # bytes to read first from the end of a file

# What parsing raises for damaged files; very deep lists and very large numbers included.
_UNEXPECTED = (ValueError, TypeError, RecursionError, OverflowError)
_REMEDIES = {
    "environment.json": "remove it; training does not need it",
    "status.json": "remove it; training writes a new one",
    "trackers.json": "remove it; trackers then show a resumed run as a new one",
}
_RESTORE = "restore it from a copy; the run cannot be used without it"
_REMOVE_LINE = "remove the damaged line, or restore the file from a copy"


def damaged(path: Path, why: object) -> UserError:
    """Return the error for an unreadable file in a run folder."""
    if isinstance(why, OSError):
        why = why.strerror or why
    remedy = _REMOVE_LINE if path.suffix == ".jsonl" else _REMEDIES.get(path.name, _RESTORE)
    return UserError(f"{path} cannot be read ({why}): {remedy}")


def read_json(path: Path, parse: Callable[[Any], Any]) -> Any:
    """Read and parse a file; a ValueError or TypeError from ``parse`` means that it is damaged."""
    try:
        return parse(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, *_UNEXPECTED) as error:
        raise damaged(path, error) from None


def read_lines(path: Path, parse: Callable[[Line], Any]) -> Iterator[Any]:
    """Parse and yield the complete lines one at a time: the file of a long run may be large."""
    try:
        for number, text in enumerate(complete_lines(path), start=1):
            yield parse_line(path, text, f"line {number}", parse)
    except OSError as error:
        raise damaged(path, error) from None


def read_last_lines(
    path: Path, count: int, parse: Callable[[Line], Any], num_bytes: int = LAST_BYTES
) -> list[Any]:
    """Parse the last complete lines, oldest first; read only the end of the file."""
    try:
        texts = _last_complete_lines(path, count, num_bytes)
    except OSError as error:
        raise damaged(path, error) from None
    places = (f"line {len(texts) - i} from the end" for i in range(len(texts)))
    return [parse_line(path, text, place, parse) for text, place in zip(texts, places, strict=True)]


def complete_lines(path: Path) -> Iterator[bytes]:
    """Yield the complete lines of a file; yield nothing if the file does not exist.

    If a run is killed, the last line may be incomplete; it is skipped.
    """
    if path.exists():
        with path.open("rb") as file:
            yield from (line for line in file if line.endswith(b"\n"))


def _last_complete_lines(path: Path, count: int, num_bytes: int) -> list[bytes]:
    if not path.exists():
        return []
    with path.open("rb") as file:
        size = file.seek(0, 2)
        while True:
            start = max(0, size - num_bytes)
            file.seek(start)
            # The first piece may be the end of a line; the last piece is incomplete or empty.
            lines = file.read(size - start).split(b"\n")[1 if start else 0 : -1]
            if len(lines) >= count or start == 0:
                return lines[-count:]
            num_bytes *= 8


def parse_line(path: Path, text: bytes, place: str, parse: Callable[[Line], Any]) -> Any:
    """Parse one line of a file; ``place`` names the line in the error message."""
    try:
        line = json.loads(text)
        if not isinstance(line, dict):
            raise TypeError("not a JSON object")
        return parse(line)
    except _UNEXPECTED as error:
        raise damaged(path, f"{place}: {error}") from None


# Checks of single values


def is_number(value: object) -> bool:
    """Return whether a value is a finite number; whole ones as in ``is_whole``."""
    return is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def require(line: Line, name: str, is_valid: Callable[[Any], bool]) -> None:
    """Raise TypeError if a field of a line is missing or has an invalid value."""
    if name not in line:
        raise TypeError(f"{name} is missing")
    if not is_valid(line[name]):
        raise TypeError(f"{name} is {str(line[name])[:40]!r}")


def is_whole(value: object) -> bool:
    """Return whether a value is a whole number that every reader of JSON can hold exactly."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
