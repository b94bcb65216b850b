"""What ranks find out together: who they are, and how long messages take between them.

``python -m remuda.doctor.probe TIME`` is what the doctor starts on ranks, as a run is started; TIME is when that was.
Rank 0 prints the answer, or what has failed, as a line of JSON. Times are those of the engine's own messages, with its
way of waiting.
"""

import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import remuda
from remuda.cluster import launch
from remuda.config import EngineConfig
from remuda.engines import Transport
from remuda.errors import ReportedElsewhere, exit_status, explain, is_user_error
from remuda.system.devices import usable_cores

SMALL, LARGE = 8, 16_000_000  # bytes of a message
NUM_SUMMED = 625_000  # float64, 5 MB
NUM_SMALL, NUM_LARGE = 200, 10  # messages whose median is taken
TAG = 0


def ask(num_ranks: int = 0) -> dict[str, Any]:
    """Join the ranks that a launcher has started; all of them must ask."""
    with launch.join(EngineConfig(name="mpi", ranks=num_ranks)) as world:
        assert isinstance(world, Transport)
        from remuda.cluster.doctor.library import abilities

        now = time.time()
        everyone = world.share(_own(world))
        between = {
            place: {"latency": _latency(world, other), "exchange": _exchange(world, other)}
            for place, other in partners([each["host"] for each in everyone]).items()
        }
        answer = {"joined": now, "ranks": everyone, "between": between, **abilities()}
        if world.num_ranks > 1:
            numbers = torch.zeros(NUM_SUMMED, dtype=torch.float64)
            answer["sum"] = _median(NUM_LARGE, lambda: world.add(numbers))
        return world.share(answer)[0]  # rank 0 takes part in every measurement


def _own(world: Transport) -> dict[str, Any]:
    folder, num_gpus = Path.cwd(), torch.cuda.device_count()
    return {
        "host": world.host,
        "cores": max(1, usable_cores() // world.num_sharing),
        "num_usable": usable_cores(),
        "num_sharing": world.num_sharing,
        "device": f"cuda:{world.local_rank % num_gpus}" if num_gpus else "cpu",
        "folder": [str(folder), folder.stat().st_ino, folder.stat().st_mtime_ns],
        "versions": f"remuda {remuda.__version__}, PyTorch {torch.__version__}, Python {platform.python_version()}",
    }


def partners(hosts: list[str]) -> dict[str, int]:
    """The first rank beside rank 0, and the first on another host."""
    found: dict[str, int] = {}
    for rank, host in enumerate(hosts):
        if rank:
            found.setdefault("on a host" if host == hosts[0] else "between hosts", rank)
    return found


def _latency(world: Transport, other: int) -> float:
    """Seconds of a small message, one way."""
    message, answer = torch.zeros(SMALL, dtype=torch.uint8), torch.empty(SMALL, dtype=torch.uint8)

    def back_and_forth() -> None:
        if world.rank == 0:
            world.exchange({other: message}, {}, TAG)
            world.exchange({}, {other: answer}, TAG)
        elif world.rank == other:
            world.exchange({}, {0: answer}, TAG)
            world.exchange({0: message}, {}, TAG)

    world.agree(0)
    return _median(NUM_SMALL, back_and_forth) / 2


def _exchange(world: Transport, other: int) -> float:
    """Seconds in which two ranks send each other a large message at once."""
    outgoing, incoming = (
        torch.zeros(LARGE, dtype=torch.uint8),
        torch.empty(LARGE, dtype=torch.uint8),
    )
    partner = {0: other, other: 0}.get(world.rank)
    if partner is not None:
        return _median(
            NUM_LARGE, lambda: world.exchange({partner: outgoing}, {partner: incoming}, TAG)
        )
    return 0.0


def _median(num_times: int, action: Callable[[], None]) -> float:
    """Seconds of an action, once it has been done to get connections and buffers ready."""
    action()
    seconds = []
    for _ in range(num_times):
        began = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def main() -> None:
    rank, number = launch.place()
    try:
        answer = ask(number)
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
