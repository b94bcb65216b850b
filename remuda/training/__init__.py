"""Train a run: assemble it, loop over its rounds, record them, and survive failures."""

from typing import TYPE_CHECKING

from remuda.system.choices import lazy_exports

if TYPE_CHECKING:
    from remuda.training.herd import Herd
    from remuda.training.progress import EventFiles, Progress, Several

__all__ = ["EventFiles", "Herd", "Progress", "Several"]

__getattr__, __dir__ = lazy_exports(
    __name__, {"herd": ["Herd"], "progress": ["EventFiles", "Progress", "Several"]}
)
