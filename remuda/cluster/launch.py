"""Start ranks, or join the ranks that a launcher has started."""

import importlib.util
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from remuda.cluster import hosts
from remuda.cluster.environment import STARTED_BY_REMUDA, rank_from_environment
from remuda.cluster.launcher import Launcher
from remuda.config import EngineConfig
from remuda.engines import ENGINES, Communicator
from remuda.engines.mpi.engine import missing
from remuda.errors import Interrupted, StoppedByFailure, UserError, resume_command
from remuda.system.signals import STOP_SIGNALS
from remuda.system.text import count

# Signals within this many seconds of the first one count as the same request.
SECOND_SIGNAL_AFTER = 10.0
ATTEMPTS = 3  # how often to try to start the ranks


def num_to_start(engine: EngineConfig) -> int:
    """Return how many ranks this process must start, or 0 if none are needed.

    The number is that of engine.hosts or engine.ranks or, without both, the number of tasks of the
    batch job. A process that is a rank itself starts none.
    """
    is_rank = rank_from_environment().num_ranks > 1 or STARTED_BY_REMUDA in os.environ
    if not ENGINES[engine.name].spans_processes or is_rank:
        return 0
    number = num_requested(engine) or int(os.environ.get("SLURM_NTASKS", "1"))
    return number if number > 1 or engine.hosts else 0


def num_requested(engine: EngineConfig) -> int:
    """Return the number of ranks that the settings request, or 0 if they request none."""
    number = sum(host.slots for host in hosts.parse(engine.hosts))
    if number and engine.ranks not in (0, number):
        raise UserError(
            f"engine.ranks={engine.ranks}, but engine.hosts={engine.hosts} starts "
            f"{count(number, 'rank')}: leave out --ranks, or change --hosts"
        )
    return number or engine.ranks


def join(engine: EngineConfig) -> Communicator:
    """Return the communicator of the processes that train together.

    Enter it as a context before you use it.
    """
    kind = ENGINES[engine.name]
    communicator = kind.join()
    if kind.spans_processes:
        started = rank_from_environment().num_ranks
        _check_ranks(num_requested(engine), started, communicator.num_ranks)
    return communicator


def _check_ranks(requested: int, started: int, joined: int) -> None:
    if started != joined:
        raise UserError(
            f"the launcher started {count(started, 'rank')}, but mpi4py's MPI library sees "
            f"{joined}: use the mpirun of the library that mpi4py was built with, or "
            "srun --mpi=pmix"
        )
    if requested not in (0, joined):
        raise UserError(
            f"engine.ranks={requested}, but {count(joined, 'rank')} joined: start the ranks with "
            f"`remuda train --engine mpi --ranks {requested}` or `mpirun -n {requested}`, "
            "or leave engine.ranks at 0"
        )


def start(
    num_ranks: int,
    arguments: list[str],
    folder: Path,
    tell: Callable[[str], None],
    places: Sequence[hosts.Host] = (),
) -> int:
    """Run a remuda command on several ranks and return its exit status.

    A stop signal is passed on to every rank, and the run is saved. A second signal, at least ten
    seconds later, ends the ranks immediately. If a rank dies before MPI has started, all ranks are
    started again, because nothing else has happened yet. ``folder`` is the run folder. ``places``
    are the hosts of the ranks; without them, all ranks start on this machine or in the batch job.
    """
    if importlib.util.find_spec("mpi4py") is None:
        raise UserError(missing("No module named 'mpi4py'"))
    hosts.check(places)
    stopped_at, launcher = 0.0, Launcher(num_ranks, arguments, places)

    def stop(*_: object) -> None:
        nonlocal stopped_at
        stopped_at = stopped_at or time.monotonic()
        is_second = time.monotonic() - stopped_at > SECOND_SIGNAL_AFTER
        launcher.process.send_signal(signal.SIGTERM if is_second else signal.SIGUSR1)

    previous = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
    try:
        status = launcher.wait()
        for _ in range(ATTEMPTS - 1):
            if launcher.failed_to_start and not stopped_at:
                tell("MPI did not start on all ranks; starting them again")
                launcher = Launcher(num_ranks, arguments, places)
                status = launcher.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if launcher.output.command_succeeded:
        return status
    if not stopped_at:
        _explain(launcher, status, folder)
    elif not (status and launcher.num_lines):
        # The signal came before the ranks could handle it, so they printed nothing.
        raise Interrupted(f"stopped; {next_step(folder)}")
    return status


def _explain(launcher: Launcher, status: int, folder: Path) -> None:
    """Raise an error that explains the failure, if the ranks have not explained it themselves."""
    if launcher.failed_to_start:
        raise UserError(
            f"MPI did not start on all ranks, {ATTEMPTS} times: run `remuda doctor` to find out why"
        )
    if launcher.output.deaths:
        rank, host, number = launcher.output.deaths[0]
        cause = f"signal {number} ({signal.strsignal(int(number))})"
        raise StoppedByFailure(
            f"rank {rank} on {host} was ended by {cause}, and mpirun ended all others: "
            f"{next_step(folder)}"
        )
    if status == 0:  # mpirun with ULFM returns 0 even if ranks failed
        raise StoppedByFailure(f"all ranks died: {next_step(folder)}")
    if not launcher.num_lines:
        raise UserError(
            f"the ranks exited with status {status} and without an error message: "
            f"{next_step(folder)}"
        )


def next_step(folder: Path) -> str:
    """Tell the user what to do after the ranks have ended unexpectedly."""
    if (folder / "config.toml").exists():
        return f"resume with: {resume_command(folder)}"
    return "start the run again"
