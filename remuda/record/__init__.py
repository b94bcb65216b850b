"""Write run folders (``Record``) and read them (``Reader``, which needs no PyTorch)."""

from typing import TYPE_CHECKING

from remuda.system.choices import lazy_exports

if TYPE_CHECKING:
    from remuda.record.facts import DataFacts
    from remuda.record.reader import Reader
    from remuda.record.writer import Record, next_folder

__all__ = ["DataFacts", "Reader", "Record", "next_folder"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "facts": ["DataFacts"],
        "reader": ["Reader"],
        "writer": ["Record", "next_folder"],
    },
)
