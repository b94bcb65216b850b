"""The methods of the papers, one file each."""

from typing import TYPE_CHECKING

from remuda.system.choices import Choices, lazy_exports

if TYPE_CHECKING:
    from remuda.strategies.base import Strategy
    from remuda.strategies.cellular import Cellular
    from remuda.strategies.cellular_async import AsyncCellular
    from remuda.strategies.class_parallel import ClassParallel
    from remuda.strategies.context import Context, Metrics, Report
    from remuda.strategies.fl_gan import FLGAN
    from remuda.strategies.md_gan import MDGAN
    from remuda.strategies.md_gan_async import AsyncMDGAN
    from remuda.strategies.routing import Routing
    from remuda.strategies.standalone import Standalone

STRATEGIES: Choices[type["Strategy"]] = Choices(
    {
        "standalone": "remuda.strategies.standalone:Standalone",
        "class-parallel": "remuda.strategies.class_parallel:ClassParallel",
        "cellular": "remuda.strategies.cellular:Cellular",
        "cellular-async": "remuda.strategies.cellular_async:AsyncCellular",
        "md-gan": "remuda.strategies.md_gan:MDGAN",
        "md-gan-async": "remuda.strategies.md_gan_async:AsyncMDGAN",
        "fl-gan": "remuda.strategies.fl_gan:FLGAN",
    },
    group="remuda.strategies",
    base="remuda.strategies.base:Strategy",
)

# The noun for a strategy's members; a strategy that is not listed has "members".
MEMBER_NOUNS = {
    "standalone": "pair",
    "class-parallel": "class",
    "cellular": "cell",
    "cellular-async": "cell",
    "md-gan": "worker",
    "md-gan-async": "worker",
    "fl-gan": "worker",
}

__all__ = [
    "FLGAN",
    "MDGAN",
    "MEMBER_NOUNS",
    "STRATEGIES",
    "AsyncCellular",
    "AsyncMDGAN",
    "Cellular",
    "ClassParallel",
    "Context",
    "Metrics",
    "Report",
    "Routing",
    "Standalone",
    "Strategy",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "base": ["Strategy"],
        "cellular": ["Cellular"],
        "cellular_async": ["AsyncCellular"],
        "class_parallel": ["ClassParallel"],
        "context": ["Context", "Metrics", "Report"],
        "fl_gan": ["FLGAN"],
        "md_gan": ["MDGAN"],
        "md_gan_async": ["AsyncMDGAN"],
        "routing": ["Routing"],
        "standalone": ["Standalone"],
    },
)
