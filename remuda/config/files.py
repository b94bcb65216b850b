"""Read and write configurations: nested dicts, TOML files, and ``--set section.key=value``."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from remuda.config.deprecated import current_names
from remuda.config.references import references, with_fingerprints, with_full_paths
from remuda.config.schema import check_known, structure, suggestion, unstructure
from remuda.config.sections import DEFAULT_NAMES, EngineConfig, LoopConfig, RunConfig
from remuda.data.config import DataConfig
from remuda.errors import UserError
from remuda.networks import NETWORKS
from remuda.scores.config import ScoreConfig
from remuda.strategies import STRATEGIES
from remuda.system import parts as parts_of_users
from remuda.system.choices import Choices

# In NAMED sections, the key ``name`` chooses the class. PLAIN sections have a fixed class.
NAMED = cast(dict[str, Choices[type]], {"networks": NETWORKS, "strategy": STRATEGIES})
PLAIN: dict[str, type] = {
    "data": DataConfig,
    "engine": EngineConfig,
    "run": LoopConfig,
    "scores": ScoreConfig,
}


def from_dict(values: dict[str, Any]) -> RunConfig:
    """Return the configuration that nested dicts, such as those of a TOML file, describe.

    Users' own parts are imported. Relative paths of their files start at the working folder.
    """
    sections = [f.name for f in fields(RunConfig)]
    check_known(values, sections, "section")
    values = with_full_paths(current_names(values), Path.cwd())
    for found in references(values).values():
        for reference in found:
            parts_of_users.refresh(reference)
    parts: dict[str, Any] = {}
    for section, cls in PLAIN.items():
        parts[section] = structure(section, cls, _table(values, section))
    for section in NAMED:
        parts[section] = _named(section, _table(values, section))
    parts["strategy"] = parts["strategy"].for_rounds(parts["run"].rounds)
    about, paper = values.get("about", ""), values.get("paper", {})
    if not isinstance(about, str) or not isinstance(paper, dict):
        raise UserError("about must be text, and paper must be a table")
    return RunConfig(about=about, paper=paper, **parts)


def _named(section: str, table: dict[str, Any]) -> Any:
    """Return the part that a NAMED section describes."""
    table, classes = dict(table), NAMED[section]
    name = table.pop("name", DEFAULT_NAMES[section])
    if not isinstance(name, str) or name not in classes:
        hint = suggestion(str(name), classes)
        if isinstance(name, str) and ".py" in name:
            hint = f"write FILE.py:NAME, for example {name.partition('.py')[0]}.py:TinyConv"
        raise UserError(f"{section}.name={name!r} is unknown: {hint}")
    _check_owners(section, name, table)
    return structure(section, classes[name], table, has_name=True)


def to_dict(config: RunConfig) -> dict[str, Any]:
    """Return nested dicts with every setting, including defaults; inverts ``from_dict``."""
    values: dict[str, Any] = {"about": config.about, "paper": config.paper}
    for section in PLAIN:
        values[section] = unstructure(getattr(config, section))
    for section in NAMED:
        part = getattr(config, section)
        values[section] = {"name": _name_of(section, part)} | unstructure(part)
    sections = [f.name for f in fields(RunConfig)]
    return {key: values[key] for key in sections if values[key] or key in NAMED}


def to_toml(config: RunConfig) -> str:
    """Return the text of a TOML file with every setting, including defaults."""
    return write_toml(to_dict(config))


def write_toml(values: dict[str, Any]) -> str:
    """Return the text of a TOML file with these values."""
    import tomli_w

    return tomli_w.dumps(values)


def comparable(values: dict[str, Any]) -> dict[str, Any]:
    """Return every setting, including defaults, in a form that can be compared.

    This imports none of the user's own code: sections that name it keep the settings they have,
    and the checksums of its files stand for the code. Paths of files must be absolute.
    """
    values = current_names(values)
    foreign = {setting.partition(".")[0] for setting in references(values)}
    if not foreign:
        return to_dict(from_dict(values))
    complete: dict[str, Any] = dict(values)
    for section, cls in PLAIN.items():
        complete[section] = unstructure(cls()) | _table(values, section)
    for section in set(NAMED) - foreign:
        part = _named(section, _table(values, section))
        complete[section] = {"name": _name_of(section, part)} | unstructure(part)
    return with_fingerprints(_with_lists(complete))


def _with_lists(value: Any) -> Any:
    """Return nested values with lists instead of tuples, as in a TOML file."""
    if isinstance(value, dict):
        return {key: _with_lists(one) for key, one in value.items()}
    return [_with_lists(one) for one in value] if isinstance(value, list | tuple) else value


def read_toml(path: Path) -> dict[str, Any]:
    """Return the values in a TOML file, for ``override`` and ``from_dict``."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"cannot read {path}: no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from None


def override(values: dict[str, Any], assignments: list[str]) -> dict[str, Any]:
    """Return the values with every "section.key=value" applied.

    A value that is not valid TOML becomes text. If an assignment chooses another class in the
    sections networks or strategy, settings that the new class does not have are dropped.
    """
    result = current_names(values)
    for section, given in current_names(_parse(assignments)).items():
        table = dict(_table(result, section))
        name, classes = given.get("name"), NAMED.get(section, {})
        if isinstance(name, str) and name in classes and name != table.get("name"):
            known = {f.name for f in fields(classes[name])}
            table = {key: value for key, value in table.items() if key in known}
        result[section] = table | given
    return result


def _parse(assignments: list[str]) -> dict[str, dict[str, Any]]:
    """Return the tables that assignments describe; the last assignment to a key wins."""
    tables: dict[str, dict[str, Any]] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        section, dot, key = path.strip().partition(".")
        if not (equals and dot and key):
            raise UserError(
                f"--set {assignment}: write section.key=value, for example strategy.batch_size=32"
            )
        check_known([section], [*PLAIN, *NAMED], "section")
        tables.setdefault(section, {})[key] = _value(text.strip())
    return tables


def _value(text: str) -> Any:
    """Read a value of TOML. Words need no quotes, neither as a value nor in a list."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        words = re.fullmatch(r"\[\s*([\w.-]+(?:\s*,\s*[\w.-]+)*)\s*\]", text)
        return re.split(r"\s*,\s*", words[1]) if words else text


def _check_owners(section: str, name: str, table: dict[str, Any]) -> None:
    """Raise if a setting exists, but only for other names of this section."""
    owners: dict[str, list[str]] = {}
    unknown = set(table) - {f.name for f in fields(NAMED[section][name])}
    for other in NAMED[section].own if unknown else ():
        for key in unknown & {f.name for f in fields(NAMED[section][other])}:
            owners.setdefault(key, []).append(other)
    for key, others in sorted(owners.items()):
        raise UserError(
            f"{section}.{key} does not exist for {section}.name={name}: remove it, or set "
            f"{section}.name to {' or '.join(others)}"
        )


def _name_of(section: str, part: object) -> str:
    name = NAMED[section].name_of(type(part))
    if name is not None:
        return name
    known = {"networks": "NETWORKS", "strategy": "STRATEGIES"}[section]
    kind = type(part).__name__
    raise UserError(
        f"{kind} has no name in the section {section}, so the run could not be loaded again: use "
        f'{section}.name="FILE.py:{kind}", or register it with remuda.{known}["NAME"] = {kind}'
    )


def _table(values: dict[str, Any], section: str) -> dict[str, Any]:
    table = values.get(section, {})
    if not isinstance(table, dict):
        raise UserError(f"{section} must be a table of settings, not {table!r}")
    return table
