"""Find out which hosts the ranks run on, and measure how long messages between them take.

The doctor starts ``python -m remuda.cluster.doctor.probe TIME`` on ranks, in the same way as a run.
TIME is the time at which it starts them. Rank 0 prints the answer, or an error, as a line of JSON.
Messages are sent and awaited in the same way as in training.
"""

import itertools
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from remuda.cluster import launch
from remuda.cluster.environment import rank_from_environment
from remuda.config import EngineConfig
from remuda.engines import Communicator
from remuda.errors import ReportedElsewhere, exit_status, explain, is_user_error
from remuda.system.devices import usable_cores
from remuda.system.version import __version__

SMALL, LARGE = 8, 16_000_000  # bytes of a message
NUM_SUMMED = 625_000  # float64 numbers
SUMMED_BYTES = 8 * NUM_SUMMED  # 5 MB
NUM_SMALL, NUM_LARGE = 200, 10  # repetitions; the result is their median
SLOW = 0.2  # seconds; if a large message takes longer, it is sent less often
BUDGET = 90.0  # seconds after which no more pairs are measured
TAG = 0  # the MPI tag of all messages


def measure(num_ranks: int = 0) -> dict[str, Any]:
    """Join the ranks that a launcher has started, and measure. All ranks must call this."""
    with launch.join(EngineConfig(name="mpi", ranks=num_ranks)) as communicator:
        from remuda.cluster.doctor.library import abilities

        now = time.time()
        facts = communicator.all_gather(_own_facts(communicator))
        links = _measure_links(communicator, [rank["host"] for rank in facts])
        answer = {"joined": now, "ranks": facts, "links": links, **abilities()}
        if communicator.num_ranks > 1:
            numbers = torch.zeros(NUM_SUMMED, dtype=torch.float64)
            answer["sum"] = _median(NUM_LARGE, lambda: communicator.add([numbers]))
        return communicator.all_gather(answer)[0]


def _own_facts(communicator: Communicator) -> dict[str, Any]:
    folder, num_gpus = Path.cwd(), torch.cuda.device_count()
    return {
        "host": communicator.host,
        "cores": max(1, usable_cores() // communicator.num_sharing),
        "num_usable": usable_cores(),
        "num_sharing": communicator.num_sharing,
        "device": f"cuda:{communicator.local_rank % num_gpus}" if num_gpus else "cpu",
        "folder": [str(folder), folder.stat().st_ino, folder.stat().st_mtime_ns],
        "versions": f"remuda {__version__}, PyTorch {torch.__version__}, "
        f"Python {platform.python_version()}",
    }


def pairs(hosts: list[str]) -> list[tuple[int, int]]:
    """Return the pairs to measure: two ranks of a host, then the first ranks of any two hosts."""
    first: dict[str, int] = {}
    neighbours = []
    for rank, host in enumerate(hosts):
        if host in first and not neighbours:
            neighbours = [(first[host], rank)]
        first.setdefault(host, rank)
    return [*neighbours, *itertools.combinations(first.values(), 2)]


def _measure_links(communicator: Communicator, hosts: list[str]) -> list[dict[str, Any]]:
    """Measure one pair of ranks after the other, until BUDGET is spent. All ranks return the same.

    Seconds are measured by the first rank of a pair.
    """
    deadline, links = time.monotonic() + BUDGET, []
    for pair in pairs(hosts):
        if communicator.max_over_ranks(int(time.monotonic() > deadline)):
            break
        seconds = [0.0, 0.0]
        if communicator.rank in pair:
            seconds = [_latency(communicator, *pair), _exchange(communicator, *pair)]
        latency, exchange = communicator.all_gather(seconds)[pair[0]]
        names = [hosts[rank] for rank in pair]
        links.append({"hosts": names, "latency": latency, "exchange": exchange})
    return links


def _latency(communicator: Communicator, first: int, second: int) -> float:
    """Return the one-way time of a small message in seconds."""
    message, answer = torch.zeros(SMALL, dtype=torch.uint8), torch.empty(SMALL, dtype=torch.uint8)

    def back_and_forth() -> None:
        if communicator.rank == first:
            communicator.exchange({second: message}, {}, TAG)
            communicator.exchange({}, {second: answer}, TAG)
        else:
            communicator.exchange({}, {first: answer}, TAG)
            communicator.exchange({first: message}, {}, TAG)

    return _median(NUM_SMALL, back_and_forth) / 2


def _exchange(communicator: Communicator, first: int, second: int) -> float:
    """Return the seconds that two ranks need to send each other a large message simultaneously."""
    outgoing = torch.zeros(LARGE, dtype=torch.uint8)
    incoming = torch.empty(LARGE, dtype=torch.uint8)
    partner = second if communicator.rank == first else first

    def both_ways() -> None:
        communicator.exchange({partner: outgoing}, {partner: incoming}, TAG)

    # Over a slow link, one message is enough. Both ranks must send the same number.
    seconds = _median(1, both_ways)
    number = torch.tensor([NUM_LARGE if seconds < SLOW else 0])
    as_bytes = number.view(torch.uint8)
    if communicator.rank == first:
        communicator.exchange({second: as_bytes}, {}, TAG)
    else:
        communicator.exchange({}, {first: as_bytes}, TAG)
    return _median(int(number), both_ways) if number else seconds


def _median(num_times: int, action: Callable[[], None]) -> float:
    """Return the median duration of an action in seconds.

    One call that is not timed comes first, to set up the connections.
    """
    action()
    seconds = []
    for _ in range(num_times):
        began = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def main() -> None:
    """Measure on all ranks, and print the answer or the error on rank 0."""
    rank, num_ranks = rank_from_environment()
    try:
        answer = measure(num_ranks)
        if rank == 0:
            started = float(sys.argv[1])
            print(json.dumps({**answer, "startup": answer["joined"] - started}), flush=True)
    except ReportedElsewhere as error:
        sys.exit(error.status)
    except BaseException as error:
        if not is_user_error(error):
            raise
        if rank == 0:
            print(json.dumps({"failed": explain(error)}), flush=True)
        sys.exit(exit_status(error))


if __name__ == "__main__":
    main()
