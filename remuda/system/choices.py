"""Named parts that are imported when they are first used.

The names of strategies, networks, engines and the like are known at once, so that commands which
train nothing can list them without importing PyTorch.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

Part = TypeVar("Part", covariant=True)


class Choices(Mapping[str, Part]):
    """A mapping from names to parts; each part is given as ``"module:attribute"``."""

    def __init__(self, places: dict[str, str]):
        self._places = dict(places)

    def __getitem__(self, name: str) -> Part:
        return load(self._places[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __repr__(self) -> str:
        return f"Choices({', '.join(self._places)})"


def load(place: str) -> Any:
    """Import ``"module:attribute"``."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)
