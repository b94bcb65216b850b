"""Read from the environment what a launcher tells the processes that it starts."""

import os
from typing import NamedTuple

# A rank's number and the number of ranks, as Open MPI, MPICH and Slurm name them. Slurm sets the
# second one only for the steps that srun makes, not for the batch script.
RANK_VARIABLES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


class Placement(NamedTuple):
    """The place of this process among the ranks that were started together."""

    rank: int
    num_ranks: int


def rank_from_environment() -> Placement:
    """Return this process's rank and the number of ranks; 0 and 1 without a launcher."""
    for rank, num_ranks in RANK_VARIABLES:
        if rank in os.environ and num_ranks in os.environ:
            return Placement(int(os.environ[rank]), int(os.environ[num_ranks]))
    return Placement(0, 1)
