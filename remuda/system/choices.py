"""Look up parts by name, and import each of them when it is first used.

The names of strategies, networks, engines and other parts are known without importing them. So
commands that do not train can list the names without importing PyTorch. Packages export their
classes and functions in the same way.
"""

import difflib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

Part = TypeVar("Part")


class Choices(MutableMapping[str, Part]):
    """A mapping from names to parts; each part is given as ``"module:attribute"``.

    Add a part of your own with ``choices["name"] = part``.
    """

    def __init__(self, places: Mapping[str, str]):
        self._places: dict[str, str | None] = dict(places)
        self._parts: dict[str, Part] = {}

    def __getitem__(self, name: str) -> Part:
        place = self._places[name]
        if name not in self._parts and place is not None:
            self._parts[name] = load(place)
        return self._parts[name]

    def __setitem__(self, name: str, part: Part) -> None:
        self._places[name] = None
        self._parts[name] = part

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._parts.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __repr__(self) -> str:
        return f"Choices({', '.join(self._places)})"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a hint for a mistyped name: the nearest known name, or all known names."""
    known = list(known)
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(known)}"


def load(place: str) -> Any:
    """Import a module and return its attribute, given as ``"module:attribute"``."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def lazy_exports(
    package: str, exports: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package that exports names from its modules.

    ``exports`` maps a module, relative to the package, to the names that come from it. A module is
    imported when one of its names is first used.
    """
    modules = {name: module for module, names in exports.items() for name in names}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        part = load(f"{package}.{modules[name]}:{name}")
        setattr(sys.modules[package], name, part)
        return part

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, names
