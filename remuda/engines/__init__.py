"""Where members live and how rows travel."""

from remuda.engines.base import Engine, Scan
from remuda.engines.metered import Metered
from remuda.engines.ranks import Ranks
from remuda.engines.stacked import Stacked
from remuda.engines.world import Transport, World

ENGINES: dict[str, type[Engine]] = {"stacked": Stacked, "mpi": Ranks}

__all__ = ["ENGINES", "Engine", "Metered", "Ranks", "Scan", "Stacked", "Transport", "World"]
