"""Train on three ranks, the last of which is slow. Every rank of a job runs this:

python -m mpi4py -m tests.mpi.balancing EVENT FOLDER STRATEGY ROUNDS

none       no rank fails
round      rank 1 dies in the middle of the first round after members have moved
assembly   rank 1 dies while members move
remote     rank 1 cannot see the folder
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

import signal
import sys
import time
from pathlib import Path

import torch

import remuda
from remuda import config
from remuda.cluster.launch import rank_from_environment
from remuda.training import sharing, starting
from remuda.training.herd import Herd
from tests.mpi.saving import Notes

VALUES = {
    "data": {"name": "digits"},
    "networks": {"name": "mlp", "latent": 8, "hidden": 16},
    "strategy": {"batch_size": 4, "steps_per_round": 3},
    "engine": {"name": "mpi", "device": "cpu", "threads": 1},
    "run": {"members": 8, "checkpoint_every": 7, "sample_every": 99},
}
SECONDS = (0.0, 0.0, 0.12)  # that each rank takes for each of its members, in addition
EQUAL = [3, 3, 2]  # members of each rank at the start


def slow_down(event, rank):
    """Sleep in each round, in proportion to the members on this rank."""
    step = Herd.step

    def slow(herd, state, t):
        has_moved = [len(span) for span in herd.spans] != EQUAL
        if event == "round" and rank == 1 and has_moved:
            print("rank 1 dies with members", *herd.hosted_ids, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(SECONDS[rank] * len(herd.engine.members))
        return step(herd, state, t)

    Herd.step = slow


def die_at_the_second_assembly():
    assemble, calls = starting.assemble, []

    def dying(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return assemble(*arguments)

    starting.assemble = dying


def main(event, folder, strategy, rounds):
    torch.set_num_threads(1)
    rank = rank_from_environment().rank
    slow_down(event, rank)
    if event == "assembly" and rank == 1:
        die_at_the_second_assembly()
    if event == "remote" and rank == 1:
        sharing._appears = lambda _: False
    values = config.override(VALUES, [f"strategy.name={strategy}", f"run.rounds={rounds}"])
    remuda.run(config.from_dict(values), Path(folder), Notes())


if __name__ == "__main__":
    main(*sys.argv[1:])
