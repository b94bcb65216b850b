"""Compare the cost model with the time of a step in which pairs on several ranks share layers.

    mpirun -n 2 python -m mpi4py benchmarks/shared.py [--hidden 1024] [--steps 200]

Every rank has one pair of perceptrons for digits, and all ranks compute at the same time. In turn,
each pair trains on its own (nothing is shared), shares layers with nobody (all sums stay in the
process), and shares layers with the pairs of the other ranks. The prediction for the third case is
the second case plus the messages of the cost model. The script first measures the latency between
two ranks, their bandwidth, and how fast all ranks add up numbers. It prints medians and best times.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from remuda import recipes
from remuda.cluster import launch
from remuda.config import EngineConfig
from remuda.engines import Communicator
from remuda.experiments.scaling.model import Costs, Link, time_messages
from remuda.training.assemble import assemble
from remuda.training.herd import Herd

SMALL, LARGE = 8, 16_000_000  # bytes of a message
NUM_SUMMED = 1_000_000  # numbers, 4 MB
WARM_UP = 5  # steps
Average = Callable[[list[float]], float]
AVERAGES: dict[str, Average] = {"median": statistics.median, "best": min}
SHARED = {
    "shared_generator": ("body", "head"),
    "shared_discriminator": ("input", "body"),
}


def timed(communicator: Communicator, action: Callable[[], object]) -> float:
    """Return the seconds of the slowest rank; all ranks start together."""
    communicator.max_over_ranks(0)
    began = time.perf_counter()
    action()
    return communicator.max_over_ranks(int(1e9 * (time.perf_counter() - began))) / 1e9


def measure_link(communicator: Communicator, average: Average) -> Link:
    """Return the link between the first two ranks: the average of many messages."""
    partners = [1 - communicator.rank] if communicator.rank < 2 else []

    def exchange(size: int) -> Callable[[], None]:
        outgoing = {other: torch.zeros(size, dtype=torch.uint8) for other in partners}
        incoming = {other: torch.empty_like(buffer) for other, buffer in outgoing.items()}
        return lambda: communicator.exchange(outgoing, incoming, 0)

    numbers = torch.zeros(NUM_SUMMED)
    actions = [exchange(SMALL), exchange(LARGE), lambda: communicator.add([numbers])]
    latency, large, sums = (
        average([timed(communicator, action) for _ in range(number)])
        for action, number in zip(actions, (200, 20, 20), strict=True)
    )
    ranks = communicator.num_ranks
    return Link(latency, LARGE / large, 2 * (ranks - 1) / ranks * 4 * NUM_SUMMED / sums)


def make_herds(communicator: Communicator, hidden: int) -> dict[str, Herd]:
    """Return the herds of the three cases."""
    settings = ["strategy.steps_per_round=1", "strategy.batch_size=16", f"networks.hidden={hidden}"]
    config = recipes.recipe("class-parallel-digits", *settings)
    config = replace(config, run=replace(config.run, members=communicator.num_ranks))
    shared = replace(config, strategy=replace(config.strategy, **SHARED))
    one = replace(shared, run=replace(shared.run, members=1))
    ranks = EngineConfig(name="mpi", ranks=communicator.num_ranks, threads=1)
    return {
        "independent": assemble(replace(config, engine=ranks), communicator),
        "shared with nobody": assemble(replace(one, engine=EngineConfig(device="cpu", threads=1))),
        "shared by all ranks": assemble(replace(shared, engine=ranks), communicator),
    }


def main() -> None:
    """Time the steps of the three herds in turn, and print them next to the prediction."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with launch.join(EngineConfig(name="mpi")) as communicator:
        links = {name: measure_link(communicator, each) for name, each in AVERAGES.items()}
        herds = make_herds(communicator, options.hidden)
        states = {name: herd.start() for name, herd in herds.items()}
        seconds = {name: [] for name in herds}
        for _ in range(options.steps + WARM_UP):
            for name, herd in herds.items():
                seconds[name].append(timed(communicator, partial(herd.step, states[name], 1)))
        if communicator.is_root:
            print_result(herds["shared by all ranks"], links, seconds)


def print_result(herd: Herd, links: dict[str, Link], seconds: dict[str, list[float]]) -> None:
    """Print the times, and the prediction for the herd that spans all ranks."""
    averaging = herd.strategy.averaging(herd.context)
    assert averaging is not None
    ranks = herd.communicator.num_ranks
    costs = Costs(0.0, 0.0, {"mean": averaging.calls}, {"mean": averaging.bytes})
    print(
        f"{averaging.calls} sums of {averaging.bytes / 1e6:.2f} MB in all, milliseconds per step:"
    )
    for name, average in AVERAGES.items():
        link = links[name]
        messages = time_messages(costs, link, ranks, torch.arange(ranks)[:, None])["mean"]
        found = {case: average(times[WARM_UP:]) for case, times in seconds.items()}
        found["predicted"] = found["shared with nobody"] + messages
        cases = ", ".join(f"{case} {1e3 * each:.2f}" for case, each in found.items())
        rates = f"{link.bandwidth / 1e6:,.0f} MB/s, sums {link.adding / 1e6:,.0f} MB/s"
        print(f"{name}: {cases}; link: {1e6 * link.latency:.1f} us, {rates}")


if __name__ == "__main__":
    main()
