"""Write the reference of the Python API from the public names and their docstrings."""

import inspect
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import remuda

PACKAGE = Path(remuda.__file__).parent
NOT_PUBLIC = {"cli"}  # the command line has its own reference
# Emphasis, or a star that is none
_STAR = re.compile(r"((?<!\w)\*\w[^*]*\w\*(?!\w))|\*")
MANY = 12  # settings, above which a signature does not list them


def packages() -> list[str]:
    """Return the subpackages with public names."""
    names = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    found = [f"remuda.{name}" for name in names if name not in NOT_PUBLIC]
    return [name for name in found if getattr(import_module(name), "__all__", None)]


def markdown() -> str:
    """Return the reference of the names in ``remuda`` itself."""
    return _entries("remuda")


def markdown_of_packages() -> str:
    """Return the reference of the names in all subpackages, with a section for each."""
    return "\n".join(f"## {name}\n\n{_entries(name)}" for name in packages())


def _entries(package: str) -> str:
    module = import_module(package)
    names = sorted(module.__all__, key=str.lower)
    own = [name for name in names if home(getattr(module, name), name) in (package, None)]
    text = "\n".join(_entry(f"{package}.{name}", getattr(module, name)) for name in own)
    others = [f"`{home(getattr(module, name), name)}.{name}`" for name in names if name not in own]
    more = f"This package also exports {', '.join(others)}.\n\n" if others else ""
    return f"{more}```{{eval-rst}}\n{text}\n```\n"


def home(part: Any, name: str) -> str | None:
    """Return the package that describes a class or function, which several packages may export."""
    module = getattr(part, "__module__", None)
    if module is None or not callable(part):
        return None
    if name in remuda.__all__ and getattr(remuda, name) is part:
        return "remuda"
    homes = [each for each in packages() if getattr(import_module(each), name, None) is part]
    return next((each for each in homes if module.startswith(each)), homes[0])


def _entry(full: str, part: Any) -> str:
    if isinstance(part, ModuleType):
        return f".. automodule:: {full}\n   :members:\n"
    if inspect.isclass(part):
        # A function that is the default of a field is no method.
        defaults = (
            [one.name for one in fields(part) if callable(one.default)]
            if is_dataclass(part)
            else []
        )
        return f".. autoclass:: {full}\n   :members:\n   :exclude-members: {', '.join(defaults)}\n"
    if inspect.isroutine(part):
        return f".. autofunction:: {full}\n"
    return f".. py:data:: {full}\n\n   {_about(part)}\n"


def _about(part: Any) -> str:
    """Describe a value, which has no docstring."""
    if isinstance(part, Mapping):
        return "A mapping with these keys: " + ", ".join(f"``{key}``" for key in part) + "."
    return f"``{part!r}``"


def fix_docstring(app: Any, what: str, name: str, part: Any, options: Any, lines: list[str]):
    """Escape stars, which are shapes or products here, and leave out generated docstrings."""
    if inspect.isclass(part) and lines and lines[0].startswith(f"{part.__name__}("):
        lines.clear()  # a dataclass repeats its signature
    for row, line in enumerate(lines):
        pieces = line.split("``")
        pieces[::2] = [_STAR.sub(lambda match: match[1] or "\\*", piece) for piece in pieces[::2]]
        lines[row] = "``".join(pieces)


def shorten_signature(
    app: Any,
    what: str,
    name: str,
    part: Any,
    options: Any,
    signature: str | None,
    result: str | None,
) -> tuple[str, str | None] | None:
    """Show functions by their names, and leave out dozens of settings, which have a reference."""
    if what == "class" and is_dataclass(part) and len(fields(part)) > MANY:
        return "(**settings)", None
    if signature and "<function " in signature:
        return re.sub(r"<function (\w+)[^>]*>", r"\1", signature), result
    return None
