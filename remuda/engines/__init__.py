"""Where members live and how rows travel."""

from remuda.engines.base import Engine, Scan
from remuda.engines.metered import Metered
from remuda.engines.stacked import Stacked

ENGINES: dict[str, type[Engine]] = {"stacked": Stacked}

__all__ = ["ENGINES", "Engine", "Metered", "Scan", "Stacked"]
