"""Look up parts by name, and import each of them when it is first used.

The names of strategies, networks, engines and other parts are known without importing them. So
commands that do not train can list the names without importing PyTorch. Packages export their
classes and functions in the same way.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from remuda.errors import UserError
from remuda.system import parts

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Part = TypeVar("Part")


class Choices(MutableMapping[str, Part]):
    """A mapping from names to parts; each part is given as ``"module:attribute"``.

    Users have three ways to add parts of their own. ``choices["name"] = part`` adds a name in this
    process. An installed package offers parts as entry points of ``group``. And every reference,
    such as ``my_networks.py:TinyConv``, is a valid name; see ``remuda.system.parts``.

    Parts of users must be subclasses of ``base``, which is also a place. With ``of_class``, they
    must be instances of that class. Without a base, they must be functions.
    """

    def __init__(
        self, places: Mapping[str, str], group: str = "", base: str = "", *, of_class: bool = False
    ):
        self.group, self.base, self.of_class = group, base, of_class
        self._places: dict[str, str | None] = dict(places)
        self._parts: dict[str, Part] = {}
        self._referenced: list[tuple[str, Part]] = []  # parts that references have named

    def __getitem__(self, name: str) -> Part:
        if self._is_reference(name):
            return self._load_reference(name)
        if name not in self._parts:
            self._parts[name] = self._load(name)
        return self._parts[name]

    def _is_reference(self, name: object) -> bool:
        return bool(self.group) and name not in self._places and parts.is_reference(name)

    def _load_reference(self, name: str) -> Part:
        name = parts.absolute(name, Path.cwd())  # valid in every working folder
        part = parts.load_reference(name)
        self._check(name, part)
        if not any(known is part for _, known in self._referenced):
            self._referenced.append((name, part))
        return part

    def _load(self, name: str) -> Part:
        if (place := self._places.get(name)) is not None:
            return load(place)
        if name not in self._offers:
            raise KeyError(name)
        part = self._load_offer(name)
        self._check(name, part)
        return part

    def _check(self, name: str, part: Part) -> None:
        parts.check_kind(name, part, load(self.base) if self.base else None, self.of_class)

    def __setitem__(self, name: str, part: Part) -> None:
        self._places[name] = None
        self._parts[name] = part

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._parts.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter([*self._places, *(name for name in self._offers if name not in self._places)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._places or self._is_reference(name) or name in self._offers

    def __repr__(self) -> str:
        return f"Choices({', '.join(self)})"

    @property
    def own(self) -> list[str]:
        """The names of the parts in this package."""
        return list(self._places)

    def package(self, name: str) -> str:
        """Return the package that offers a part, or an empty string if it is one of ours."""
        return "" if name in self._places else _packages(self._offers.get(name, []))

    def name_of(self, part: Part) -> str | None:
        """Return the name of a part, or None if it has none."""
        for name, known in [*self._parts.items(), *self._referenced]:
            if known is part:
                return name
        return next((name for name in self if self[name] is part), None)

    @cached_property
    def _offers(self) -> "dict[str, list[EntryPoint]]":
        """The entry points of installed packages, by name."""
        if not self.group:
            return {}
        from importlib.metadata import entry_points  # takes 20 ms

        found: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self.group):
            found.setdefault(point.name, []).append(point)
        return found

    def _load_offer(self, name: str) -> Part:
        points = self._offers[name]
        if len({point.value for point in points}) > 1:
            raise UserError(
                f"{name} is offered by {_packages(points)}: uninstall one of them, or name the "
                f"part itself, for example {points[0].value}"
            )
        try:
            return parts.load_reference(points[0].value)
        except UserError as error:
            raise UserError(f"{name} of {_packages(points)}: {error}") from error


def _packages(points: "Iterable[EntryPoint]") -> str:
    found = {f"{point.dist.name} {point.dist.version}" for point in points if point.dist}
    return " and ".join(sorted(found))


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
