"""Where members live and how rows travel."""

from typing import TYPE_CHECKING

from remuda.system.choices import Choices, lazy_exports

if TYPE_CHECKING:
    from remuda.engines.base import Engine, Scan
    from remuda.engines.communicator import Transport, World
    from remuda.engines.metered import Metered
    from remuda.engines.mpi.engine import Ranks
    from remuda.engines.stacked import Stacked

ENGINES: Choices[type["Engine"]] = Choices(
    {
        "stacked": "remuda.engines.stacked:Stacked",
        "mpi": "remuda.engines.mpi.engine:Ranks",
    }
)

__all__ = ["ENGINES", "Engine", "Metered", "Ranks", "Scan", "Stacked", "Transport", "World"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "base": ["Engine", "Scan"],
        "communicator": ["Transport", "World"],
        "metered": ["Metered"],
        "mpi.engine": ["Ranks"],
        "stacked": ["Stacked"],
    },
)
