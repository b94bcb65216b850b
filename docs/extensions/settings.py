"""Write the reference of settings from the classes that define them."""

import tomllib

from extensions.commands import table
from remuda import config
from remuda.config import describe

SECTIONS = ["data", "networks", "strategy", "engine", "run", "scores"]
HEADS = ["setting", "type", "default", "meaning"]


def markdown() -> str:
    """Return a section for every section of a configuration."""
    parts = []
    for section in SECTIONS:
        parts.append(f"## [{section}]\n")
        if section in config.PLAIN:
            parts.append(_table(section, describe.settings(config.PLAIN[section])))
        else:
            parts.append(_named(section))
    return "\n".join(parts)


def _named(section: str) -> str:
    """Return the settings that all parts of a section share, then those of each part."""
    known = config.NAMED[section]
    found = {name: describe.describe(f"{section}.name", name, known[name]) for name in known.own}
    every = [set(each.settings) for each in found.values()]
    shared = set.intersection(*every)
    first = next(iter(found.values()))
    choices = ", ".join(f"`{name}`" for name in found)
    text = f"`{section}.name` chooses one of {choices}. Each of them has these settings:\n\n"
    text += _table(section, [one for one in first.settings if one in shared])
    for name, each in found.items():
        own = [one for one in each.settings if one not in shared]
        text += f"\n### {section}.name = {name}\n\n{each.about}\n\n"
        text += _table(section, own) if own else "It has no further settings.\n"
    return text


def _table(section: str, settings: list[describe.Setting]) -> str:
    rows = [
        [f"`{section}.{one.key}`", one.type, f"`{_toml(one.default)}`", _escaped(one.about)]
        for one in settings
    ]
    return table(HEADS, rows) + "\n"


def _toml(default: str) -> str:
    """Return a default as it is written in a file."""
    try:
        tomllib.loads(f"value = {default}")
    except tomllib.TOMLDecodeError:
        return f'"{default}"'
    return default


def _escaped(text: str) -> str:
    """Return a comment of the code as Markdown without accidental markup."""
    for mark in ("*", "_", "<", "[", "`"):
        text = text.replace(mark, f"\\{mark}")
    return text
