"""Never execute code that a run folder brings without the user's permission."""

from pathlib import Path
from typing import Any

from remuda.config.references import references
from remuda.errors import UserError
from remuda.system import parts
from remuda.system.text import count, listed


def require_trust(folder: Path, values: dict[str, Any]) -> None:
    """Raise if the settings name code that this process has not executed yet.

    The paths in the settings must be absolute.
    """
    new: dict[str, list[str]] = {}
    for setting, found in references(values).items():
        for reference in found:
            if not parts.is_loaded(reference):
                new.setdefault(describe(reference), []).append(setting)
    if new:
        code = " and ".join(f"{what} ({listed(names)})" for what, names in new.items())
        raise UserError(
            f"{folder} brings its own code, which would run with your permissions: {code}: read "
            "it, then add --trust, or trust=True in Python"
        )


def describe(reference: str) -> str:
    """Say what code a reference would execute."""
    origin = parts.origin(reference)
    if origin.path is None:
        return f"module {origin.place} of {origin.package or 'no installed package'}"
    num_lines = origin.path.read_bytes().count(b"\n")
    return f"{origin.path}, {count(num_lines, 'line')}, SHA-256 {origin.sha256[:16]}"
