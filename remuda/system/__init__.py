"""Use the machine (disk, devices, memory, processes, signals) and format text for messages."""

from typing import TYPE_CHECKING

from remuda.system.choices import lazy_exports

if TYPE_CHECKING:
    from remuda.system.progress import shown_on

__all__ = ["shown_on"]

__getattr__, __dir__ = lazy_exports(__name__, {"progress": ["shown_on"]})
