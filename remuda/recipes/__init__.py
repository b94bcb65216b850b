"""Read recipes: named configurations, one TOML file each, with the papers' results."""

import difflib
from pathlib import Path
from typing import Any

from remuda.config import RunConfig, from_dict, override, read_toml, write_toml
from remuda.config.references import with_full_paths
from remuda.config.trust import require_trust
from remuda.errors import PARTS, PARTS_INDEX, UserError

__all__ = ["names", "read", "recipe", "text"]

FOLDER = Path(__file__).parent
# A TOML file next to one of these belongs to a run, so its code may be somebody else's.
MARKS = ("data.json", PARTS_INDEX, PARTS, "checkpoints", "environment.json", "rounds.jsonl")


def names() -> list[str]:
    """Return the names of all recipes, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read(name_or_file: str) -> tuple[str, dict[str, Any]]:
    """Return a short name for the run, and the settings in a recipe or TOML file.

    Paths of the user's own parts are relative to the file.
    """
    path = Path(name_or_file)
    if path.suffix == ".toml":
        return path.stem, with_full_paths(read_toml(path), path.absolute().parent)
    if name_or_file not in names():
        nearest = difflib.get_close_matches(name_or_file.lower(), names(), n=1, cutoff=0.4)
        hint = f"did you mean {nearest[0]}?" if nearest else "see remuda list"
        raise UserError(
            f"unknown recipe {name_or_file!r}; {hint} (a file's name must end in .toml)"
        )
    return name_or_file, read_toml(FOLDER / f"{name_or_file}.toml")


def text(name_or_file: str) -> str:
    """Return a recipe as the text of a TOML file that can be saved in any folder."""
    path = Path(name_or_file)
    own = path if path.suffix == ".toml" else FOLDER / f"{name_or_file}.toml"
    _, values = read(name_or_file)
    raw = own.read_text(encoding="utf-8")
    # Paths of the user's own parts are relative to the recipe.
    return raw if values == read_toml(own) else write_toml(values)


def recipe(name_or_file: str, *assignments: str, trust: bool = False) -> RunConfig:
    """Return the configuration of a recipe or TOML file.

    Each assignment, such as ``"strategy.batch_size=32"``, changes one setting. If the file is the
    config.toml of a run that brings its own code, ``trust`` must allow to execute it.
    """
    values, folder = read(name_or_file)[1], Path(name_or_file).parent
    if not trust and any((folder / name).exists() for name in MARKS):
        require_trust(folder, values)
    return from_dict(override(values, list(assignments)))
