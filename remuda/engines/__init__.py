"""Where members live and how rows travel."""

from remuda.engines.base import Engine, Scan
from remuda.engines.communicator import Transport, World
from remuda.engines.metered import Metered
from remuda.engines.mpi.engine import Ranks
from remuda.engines.stacked import Stacked

ENGINES: dict[str, type[Engine]] = {"stacked": Stacked, "mpi": Ranks}

__all__ = ["ENGINES", "Engine", "Metered", "Ranks", "Scan", "Stacked", "Transport", "World"]
