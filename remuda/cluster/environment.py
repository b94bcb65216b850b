"""Read this process's rank from the environment variables that launchers set."""

import os
from typing import NamedTuple

# The variables for the rank and the number of ranks, for Open MPI, MPICH and Slurm. Slurm sets its
# second variable only in steps that srun starts, not in the batch script.
RANK_VARIABLES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)

# The launcher sets this variable for its ranks. Its command has already shown the warnings.
STARTED_BY_REMUDA = "REMUDA_STARTED"
# The launcher's address for its ranks, see remuda.cluster.lease.
LEASE = "REMUDA_LEASE"
# The launcher sets this variable if it shows the progress of rank 0 on its terminal.
SHOWS_PROGRESS = "REMUDA_SHOWS_PROGRESS"


class Placement(NamedTuple):
    """The rank of this process, and the number of ranks that were started together."""

    rank: int
    num_ranks: int


def rank_from_environment() -> Placement:
    """Return this process's rank and the number of ranks. Without a launcher they are 0 and 1."""
    for rank, num_ranks in RANK_VARIABLES:
        if rank in os.environ and num_ranks in os.environ:
            return Placement(int(os.environ[rank]), int(os.environ[num_ranks]))
    return Placement(0, 1)
