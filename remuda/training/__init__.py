"""Train a run: assemble it, loop over its rounds, record them, and survive failures."""

from typing import TYPE_CHECKING

from remuda.system.choices import lazy_exports

if TYPE_CHECKING:
    from remuda.training.herd import Herd
    from remuda.training.progress import Progress, Several
    from remuda.training.tracking import TRACKERS, Link, Tracker

__all__ = ["TRACKERS", "Herd", "Link", "Progress", "Several", "Tracker"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "herd": ["Herd"],
        "progress": ["Progress", "Several"],
        "tracking": ["TRACKERS", "Link", "Tracker"],
    },
)
