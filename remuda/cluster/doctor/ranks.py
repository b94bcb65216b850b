"""Check whether training on ranks would work: start some and let them exchange messages."""

import shutil
from collections.abc import Iterator, Sequence

from remuda.cluster import launch
from remuda.cluster.doctor import installation, probe, results
from remuda.cluster.doctor.findings import FAILS, OK, Finding
from remuda.cluster.doctor.trials import trial
from remuda.cluster.environment import rank_from_environment
from remuda.cluster.hosts import Host
from remuda.config import EngineConfig
from remuda.errors import UserError


def are_asked_for(num_ranks: int) -> bool:
    """Return whether the user, a launcher or a batch job requests ranks."""
    if rank_from_environment().num_ranks > 1 or num_ranks > 0:
        return True
    return launch.num_to_start(EngineConfig(name="mpi")) > 0


def findings(num_ranks: int, hosts: Sequence[Host] = ()) -> Iterator[Finding]:
    """Start ranks for a trial, or join those that a launcher has started.

    If ``num_ranks`` is 0, start one rank for each task of the batch job, or two ranks without a
    batch job. ``hosts`` are the hosts of the ranks.
    """
    number = launch.num_to_start(EngineConfig(name="mpi", ranks=num_ranks)) or num_ranks or 2
    yield installation.job()
    binding, launcher = installation.mpi4py(), installation.launcher()
    yield binding
    yield launcher
    if path := shutil.which("srun"):
        yield installation.srun(path)
    if binding.state != OK:
        yield Finding(FAILS, "ranks", "cannot be started without mpi4py: install it as shown above")
        return
    is_rank, has_launcher = rank_from_environment().num_ranks > 1, launcher.state == OK
    try:
        num_startable = number if has_launcher else 1
        answer = probe.measure(num_ranks) if is_rank else trial(num_startable, hosts)
    except UserError as error:
        yield Finding(FAILS, "ranks", str(error))
        return
    yield from results.library(answer)
    if not has_launcher and not is_rank and number > 1:
        text = f"{number} cannot be started without a launcher: only one rank works"
        yield Finding(FAILS, "ranks", text)
        return
    yield from results.ranks(answer)
