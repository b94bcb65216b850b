"""Measure the scatter and gather of an MD-GAN iteration, without the computation in between.

    mpirun -n 2 python -m mpi4py benchmarks/exchange.py [--members 10] [--batch 10]
                                                        [--shape 1 28 28] [--iterations 500]

Rank 0 sends two generated batches to every member and receives feedback on one of them, as MD-GAN
does for k > 1. The script prints the median and the best time of an iteration on these ranks. For
comparison, it also prints the times of the engine ``stacked`` with the same rows, where the verbs
only index. The difference is the cost of ranks, without the time that they wait for the slowest
rank. Expect 0.2 to 0.4 ms on two cores of one host, and 0.002 ms with ``stacked``.
"""

import argparse
import statistics
import time

import torch

from remuda.cluster import launch
from remuda.config import EngineConfig
from remuda.engines import Communicator, Engine, MPIEngine, Stacked

WARM_UP = 10  # iterations


def time_iterations(
    engine: Engine, communicator: Communicator, options: argparse.Namespace
) -> list[float]:
    """Return the seconds that each iteration takes."""
    rows = torch.randn(options.members, 2, options.batch, *options.shape)
    feedback = engine.create(lambda member: torch.randn(options.batch, *options.shape))
    seconds = []
    for _ in range(options.iterations + WARM_UP):
        communicator.max_over_ranks(0)  # all ranks start together
        started = time.perf_counter()
        engine.scatter(lambda: rows)
        engine.gather(lambda server, rows: server, torch.zeros(()), feedback)
        seconds.append(time.perf_counter() - started)
    return seconds[WARM_UP:]


def main() -> None:
    """Time the iterations on the ranks and in one process, and print both times on rank 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--shape", type=int, nargs=3, default=[1, 28, 28])
    parser.add_argument("--iterations", type=int, default=500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with launch.join(EngineConfig(name="mpi")) as communicator:
        engines = {
            f"{communicator.num_ranks} ranks": MPIEngine(communicator, options.members),
            "stacked": Stacked(options.members),
        }
        for name, engine in engines.items():
            seconds = time_iterations(engine, communicator, options)
            times = [1e3 * each for each in seconds]
            if communicator.is_root:
                median, best = statistics.median(times), min(times)
                print(f"{name}: median {median:.3f} ms, best {best:.3f} ms")


if __name__ == "__main__":
    main()
