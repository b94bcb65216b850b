"""The methods of the papers, one file each."""

from remuda.strategies.base import Strategy
from remuda.strategies.class_parallel import ClassParallel
from remuda.strategies.standalone import Standalone

STRATEGIES: dict[str, type[Strategy]] = {"standalone": Standalone, "class-parallel": ClassParallel}

__all__ = ["STRATEGIES", "ClassParallel", "Standalone", "Strategy"]
