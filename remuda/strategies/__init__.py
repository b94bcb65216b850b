"""The methods of the papers, one file each."""

from remuda.strategies.base import Strategy
from remuda.strategies.class_parallel import ClassParallel
from remuda.strategies.fl_gan import FLGAN
from remuda.strategies.md_gan import MDGAN
from remuda.strategies.standalone import Standalone

STRATEGIES: dict[str, type[Strategy]] = {
    "standalone": Standalone,
    "class-parallel": ClassParallel,
    "md-gan": MDGAN,
    "fl-gan": FLGAN,
}

__all__ = ["FLGAN", "MDGAN", "STRATEGIES", "ClassParallel", "Standalone", "Strategy"]
