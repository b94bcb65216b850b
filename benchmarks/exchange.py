"""What an iteration of MD-GAN pays for ranks: its scatter and gather without the work between them, in milliseconds.

    mpirun -n 2 python -m mpi4py benchmarks/exchange.py [--members 10] [--batch 10] [--shape 1 28 28] [--iterations 500]

Rank 0 hands every member two generated batches and receives the feedback on one, as MD-GAN does for k > 1. Printed are
the median and the best time of all iterations, on these ranks and on ``stacked`` with the same rows, whose verbs are
indexing; the difference is what ranks cost beyond waiting for the slowest of them.
"""

import argparse
import statistics
import time

import torch

from remuda.cluster import launch
from remuda.config import EngineConfig
from remuda.engines import Ranks, Stacked


def iterations(engine, options) -> list[float]:
    rows = torch.randn(options.members, 2, options.batch, *options.shape)
    feedback = engine.create(lambda member: torch.randn(options.batch, *options.shape))
    seconds = []
    for _ in range(options.iterations + 10):
        engine.agree(0)  # all begin together
        began = time.perf_counter()
        engine.scatter(lambda: rows)
        engine.gather(lambda server, rows: server, torch.zeros(()), feedback)
        seconds.append(time.perf_counter() - began)
    return seconds[10:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--shape", type=int, nargs=3, default=[1, 28, 28])
    parser.add_argument("--iterations", type=int, default=500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with launch.join(EngineConfig(name="mpi")) as world:
        for engine in (Ranks(world, options.members), Stacked(options.members)):
            seconds = iterations(engine, options)
            if world.is_root:
                place = f"{world.num_ranks} ranks" if isinstance(engine, Ranks) else "stacked"
                print(
                    f"{place}: median {1e3 * statistics.median(seconds):.3f} ms, best {1e3 * min(seconds):.3f} ms"
                )


if __name__ == "__main__":
    main()
