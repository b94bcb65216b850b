"""The methods of the papers, one file each."""

from remuda.strategies.base import Strategy
from remuda.strategies.cellular import Cellular
from remuda.strategies.class_parallel import ClassParallel
from remuda.strategies.fl_gan import FLGAN
from remuda.strategies.md_gan import MDGAN
from remuda.strategies.standalone import Standalone

STRATEGIES: dict[str, type[Strategy]] = {
    "standalone": Standalone,
    "class-parallel": ClassParallel,
    "cellular": Cellular,
    "md-gan": MDGAN,
    "fl-gan": FLGAN,
}

__all__ = ["FLGAN", "MDGAN", "STRATEGIES", "Cellular", "ClassParallel", "Standalone", "Strategy"]
