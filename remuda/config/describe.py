"""Describe parts and their settings, as documented in their source code."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, get_args, get_origin

from remuda.config.references import PARTS
from remuda.system import choices, parts
from remuda.system.choices import Choices


class Setting(NamedTuple):
    """One setting of a part."""

    key: str
    type: str
    default: str
    about: str  # the comment in the source code


class Description(NamedTuple):
    """A part with its settings."""

    setting: str  # that names this part, such as networks.name
    name: str
    about: str  # the first line of its docstring
    settings: list[Setting]


def find(name: str) -> list[Description]:
    """Describe the parts in a file, the part that a reference names, or our parts of this name."""
    if name.endswith(".py"):
        return list(_in_file(name))
    found = []
    for setting, known in PARTS.items():
        if parts.is_reference(name):
            part = parts.load_reference(name)
            if _is_kind(part, known):
                found.append(describe(setting, name, part))
        elif name in known:
            found.append(describe(setting, name, known[name]))
    return found


def packages(values: dict[str, Any]) -> dict[str, str]:
    """Return the installed packages that offer parts of a configuration, by setting."""
    found = {}
    for setting, known in PARTS.items():
        section, key = setting.split(".")
        for name in str(values[section].get(key, "")).split(","):
            if package := known.package(name.strip()):
                found[setting] = package
    return found


def describe(setting: str, name: str, part: Any) -> Description:
    """Describe one part."""
    has_own_text = isinstance(part, type) or inspect.isfunction(part)
    about = (inspect.getdoc(part) or "").partition("\n")[0] if has_own_text else ""
    return Description(setting, name, about, settings(part) if isinstance(part, type) else [])


def settings(cls: type) -> list[Setting]:
    """Return the settings of a dataclass, with the comments next to them."""
    comments: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        comments |= {key: text for key, text in _comments(base).items() if text}
    types = parts.types(cls)
    return [
        Setting(field.name, _type(types[field.name]), _default(field), comments.get(field.name, ""))
        for field in fields(cls)
        if field.init
    ]


def _in_file(name: str) -> Iterator[Description]:
    module = parts.load_file(Path(name))
    for attribute, part in vars(module).items():
        if attribute.startswith("_") or _is_imported(part, module):
            continue
        for setting, known in PARTS.items():
            if _is_kind(part, known):
                yield describe(setting, f"{name}:{attribute}", part)


def _is_imported(part: Any, module: ModuleType) -> bool:
    """Return whether a module has imported this class or function from another one."""
    home = sys.modules.get(getattr(part, "__module__", ""), module)
    return home is not module and getattr(home, getattr(part, "__name__", ""), None) is part


def _is_kind(part: Any, known: Choices[Any]) -> bool:
    if not known.base:  # a function that loads data
        return inspect.isfunction(part) and list(inspect.signature(part).parameters) == [
            "config",
            "split",
        ]
    base = choices.load(known.base)
    if known.of_class:
        return isinstance(part, base)
    return isinstance(part, type) and issubclass(part, base) and not inspect.isabstract(part)


def _type(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    words = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    if kind in words:
        return words[kind]
    if get_origin(kind) is tuple:
        return "list"
    return " or ".join(_type(one) for one in get_args(kind)) or str(kind)


def _default(field: Field[Any]) -> str:
    if field.default is MISSING:
        return ""
    value = list(field.default) if isinstance(field.default, tuple) else field.default
    return str(value).lower() if isinstance(value, bool) else str(value)


def _comments(cls: type) -> dict[str, str]:
    """Return the comment on the line of each field of a class, or above it."""
    try:
        text = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # made without source code
        return {}
    lines, found = text.splitlines(), {}
    body = ast.parse(text).body[0]
    for node in body.body if isinstance(body, ast.ClassDef) else ():
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        last = (node.end_lineno or node.lineno) - 1
        comment = lines[last][node.end_col_offset or 0 :].strip()
        above, row = [], node.lineno - 2
        while lines[row].strip().startswith("#"):
            above.insert(0, lines[row].strip())
            row -= 1
        words = [comment] if comment.startswith("#") else above
        found[node.target.id] = " ".join(word.lstrip("# ") for word in words)
    return found
