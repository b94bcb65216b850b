"""Translate old names of settings, which still work for one version but cause a warning."""

import warnings
from typing import Any

from remuda.errors import UserError

# old key: new key
DEPRECATED = {"engine.on_loss": "engine.on_failure", "run.tensorboard": "run.trackers"}
# key: old value: new value
DEPRECATED_VALUES: dict[str, dict[Any, Any]] = {"engine.on_failure": {"rehome": "move"}}
# Values of old keys whose new keys have values of another type.
CONVERTED: dict[str, dict[Any, Any]] = {"run.tensorboard": {True: ["tensorboard"], False: []}}


class DeprecatedSetting(FutureWarning):
    """The warning that a setting has a new name. Each old name causes one warning."""


def current_names(values: dict[str, Any]) -> dict[str, Any]:
    """Return the settings under their current names, and warn about old names and values."""
    result = {key: dict(v) if isinstance(v, dict) else v for key, v in values.items()}
    for old, new in DEPRECATED.items():
        section, old_key, new_key = *old.split("."), new.split(".")[1]
        table = result.get(section)
        if not isinstance(table, dict) or old_key not in table:
            continue
        if new_key in table:
            raise UserError(f"{old} is the old name of {new}, but both are set: remove {old}")
        _warn(f"{old} is deprecated: use {new}")
        # The new key takes the position of the old one, so that the table keeps its order.
        result[section] = {new_key if k == old_key else k: v for k, v in table.items()}
        value = table[old_key]
        if isinstance(value, bool):
            result[section][new_key] = CONVERTED.get(old, {}).get(value, value)
    for path, renamed in DEPRECATED_VALUES.items():
        section, key = path.split(".")
        table = result.get(section)
        value = table.get(key) if isinstance(table, dict) else None
        if isinstance(table, dict) and isinstance(value, str) and value in renamed:
            _warn(f"{path}={value} is deprecated: use {renamed[value]}")
            table[key] = renamed[value]
    return result


def _warn(message: str) -> None:
    # Python shows each message once per line of code, so issue all warnings from this line.
    warnings.warn(message, DeprecatedSetting, stacklevel=1)
