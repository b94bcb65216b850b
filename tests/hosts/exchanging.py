"""Time scatter, work and gather on several hosts: ``python -m tests.hosts.exchanging h1,h2,h3``.

Work is sleep, so the times depend little on other load. Rank 0 prints the median seconds.
"""

import statistics
import subprocess
import sys
import time

import torch

from remuda.cluster import launch, mpirun
from remuda.cluster.hosts import parse
from remuda.config import EngineConfig
from remuda.engines import MPIEngine

WORK = 0.4  # seconds
REPEATS = 5


def start(hosts: str) -> int:
    """Start a rank on each host, and return the exit status."""
    places = parse(hosts)
    ranks = mpirun.command(len(places), places)
    return subprocess.run([*ranks, sys.executable, "-m", "mpi4py", "-m", __spec__.name]).returncode


def measure() -> None:
    """Time iterations with 0.6 MB for each member."""
    with launch.join(EngineConfig(name="mpi")) as communicator:
        engine = MPIEngine(communicator, communicator.num_ranks)
        rows = torch.zeros(engine.size, 150_000)
        seconds = []
        for _ in range(REPEATS):
            communicator.max_over_ranks(0)  # all ranks start together
            began = time.perf_counter()
            received = engine.scatter(lambda: rows)
            time.sleep(WORK)
            engine.gather(lambda server, rows: server, torch.zeros(()), received)
            seconds.append(time.perf_counter() - began)
        if communicator.is_root:
            print(statistics.median(seconds), flush=True)


if __name__ == "__main__":
    sys.exit(start(sys.argv[1]) if len(sys.argv) > 1 else measure())
