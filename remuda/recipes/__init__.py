"""Read recipes: named configurations, one TOML file each, with the papers' results."""

import difflib
from pathlib import Path
from typing import Any

from remuda.config import RunConfig, from_dict, override, read_toml
from remuda.errors import UserError

__all__ = ["names", "read", "recipe"]

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Return the names of all recipes, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read(name_or_file: str) -> tuple[str, dict[str, Any]]:
    """Return a short name for the run, and the settings in a recipe or TOML file."""
    path = Path(name_or_file)
    if path.suffix == ".toml":
        return path.stem, read_toml(path)
    if name_or_file not in names():
        nearest = difflib.get_close_matches(name_or_file, names(), n=1, cutoff=0.4)
        hint = f"did you mean {nearest[0]}?" if nearest else "see remuda list"
        raise UserError(
            f"unknown recipe {name_or_file!r}; {hint} (a file's name must end in .toml)"
        )
    return name_or_file, read_toml(FOLDER / f"{name_or_file}.toml")


def recipe(name_or_file: str, *assignments: str) -> RunConfig:
    """Return the configuration of a recipe or TOML file.

    Each assignment, such as ``"strategy.batch_size=32"``, changes one setting.
    """
    return from_dict(override(read(name_or_file)[1], list(assignments)))
