"""Engines decide where members live and how their rows move."""

from typing import TYPE_CHECKING

from remuda.system.choices import Choices, lazy_exports

if TYPE_CHECKING:
    from remuda.engines.base import Engine, Pieces, Scan
    from remuda.engines.communicator import Communicator, LostRank, SingleProcess
    from remuda.engines.metered import Metered
    from remuda.engines.mpi.engine import MPIEngine
    from remuda.engines.stacked import Stacked

# Maps engine.name in the configuration to the engine's class.
ENGINES: Choices["type[Stacked] | type[MPIEngine]"] = Choices(
    {
        "stacked": "remuda.engines.stacked:Stacked",
        "mpi": "remuda.engines.mpi.engine:MPIEngine",
    }
)

__all__ = [
    "ENGINES",
    "Communicator",
    "Engine",
    "LostRank",
    "MPIEngine",
    "Metered",
    "Pieces",
    "Scan",
    "SingleProcess",
    "Stacked",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "base": ["Engine", "Pieces", "Scan"],
        "communicator": ["Communicator", "LostRank", "SingleProcess"],
        "metered": ["Metered"],
        "mpi.engine": ["MPIEngine"],
        "stacked": ["Stacked"],
    },
)
