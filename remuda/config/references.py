"""Find the settings that name users' own parts; see ``remuda.system.parts``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from remuda.data.choices import DATASETS
from remuda.data.config import FOLDER
from remuda.gan import LOSSES
from remuda.networks import NETWORKS
from remuda.scores.config import KINDS
from remuda.strategies import STRATEGIES
from remuda.system import parts
from remuda.system.choices import Choices

Values = dict[str, Any]

# Maps every setting that names a part to the parts that it may name. Only scores.kinds has several
# names, separated by commas.
PARTS: dict[str, Choices[Any]] = {
    "networks.name": NETWORKS,
    "strategy.name": STRATEGIES,
    "strategy.loss": LOSSES,
    "data.name": DATASETS,
    "scores.kinds": KINDS,
}


def references(values: Values) -> dict[str, list[str]]:
    """Return the references in a configuration by setting, such as ``networks.name``."""
    found: dict[str, list[str]] = {}

    def note(setting: str, reference: str) -> str:
        found.setdefault(setting, []).append(reference)
        return reference

    _map(values, note)
    return found


def map_references(values: Values, change: Callable[[str], str]) -> Values:
    """Return a configuration in which every reference is replaced by ``change(reference)``."""
    return _map(values, lambda _, reference: change(reference))


def with_full_paths(values: Values, folder: Path) -> Values:
    """Return a configuration whose references have absolute paths; they are relative to a folder.

    Absolute paths stay valid in every working folder.
    """
    return map_references(values, lambda reference: parts.absolute(reference, folder))


def with_fingerprints(values: Values) -> Values:
    """Return a configuration in which the checksum of the code is part of every reference.

    Equal code then has equal settings, wherever the file is. Paths must be absolute.
    """
    return map_references(values, parts.fingerprint)


def _map(values: Values, change: Callable[[str, str], str]) -> Values:
    result = dict(values)
    for setting in PARTS:
        section, key = setting.split(".")
        table = result.get(section)
        if isinstance(table, dict) and isinstance(table.get(key), str):
            result[section] = table | {key: _map_text(setting, table[key], change)}
    return result


def _map_text(setting: str, text: str, change: Callable[[str, str], str]) -> str:
    has_several = setting == "scores.kinds"
    names = [name.strip() for name in text.split(",")] if has_several else [text]
    changed = [change(setting, name) if _is_reference(setting, name) else name for name in names]
    return text if changed == names else ",".join(changed)


def _is_reference(setting: str, name: str) -> bool:
    if setting == "data.name" and name.startswith(FOLDER):
        return False
    return parts.is_reference(name)
