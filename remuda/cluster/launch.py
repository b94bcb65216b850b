"""Start ranks, or join the ranks that a launcher has started."""

import os

from remuda.cluster import hosts
from remuda.cluster.environment import STARTED_BY_REMUDA, rank_from_environment
from remuda.config import EngineConfig
from remuda.engines import ENGINES, Communicator
from remuda.errors import UserError
from remuda.system.text import count


def num_to_start(engine: EngineConfig) -> int:
    """Return how many ranks this process must start, or 0 if none are needed.

    The number is that of engine.hosts or engine.ranks or, without both, the number of tasks of the
    batch job. A process that is a rank itself starts none.
    """
    is_rank = rank_from_environment().num_ranks > 1 or STARTED_BY_REMUDA in os.environ
    if not ENGINES[engine.name].spans_processes or is_rank:
        return 0
    number = num_requested(engine) or int(os.environ.get("SLURM_NTASKS", "1"))
    return number if number > 1 or engine.hosts else 0


def num_requested(engine: EngineConfig) -> int:
    """Return the number of ranks that the settings request, or 0 if they request none."""
    number = sum(host.slots for host in hosts.parse(engine.hosts))
    if number and engine.ranks not in (0, number):
        raise UserError(
            f"engine.ranks={engine.ranks}, but engine.hosts={engine.hosts} starts "
            f"{count(number, 'rank')}: leave out --ranks, or change --hosts"
        )
    return number or engine.ranks


def join(engine: EngineConfig) -> Communicator:
    """Return the communicator of the processes that train together.

    Enter it as a context before you use it.
    """
    kind = ENGINES[engine.name]
    communicator = kind.join()
    if kind.spans_processes:
        started = rank_from_environment().num_ranks
        _check_ranks(num_requested(engine), started, communicator.num_ranks)
    return communicator


def _check_ranks(requested: int, started: int, joined: int) -> None:
    if started != joined:
        raise UserError(
            f"the launcher started {count(started, 'rank')}, but mpi4py's MPI library sees "
            f"{joined}: use the mpirun of the library that mpi4py was built with, or "
            "srun --mpi=pmix"
        )
    if requested not in (0, joined):
        raise UserError(
            f"engine.ranks={requested}, but {count(joined, 'rank')} joined: start the ranks with "
            f"`remuda train --engine mpi --ranks {requested}` or `mpirun -n {requested}`, "
            "or leave engine.ranks at 0"
        )
