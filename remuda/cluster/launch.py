"""Ranks: starting them, and joining those that a launcher has started."""

import importlib.util
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from remuda.cluster import mpirun
from remuda.config import EngineConfig
from remuda.engines import World
from remuda.errors import Interrupted, UserError, resume_command
from remuda.system.signals import STOP_SIGNALS

# What launchers tell the processes they start: rank and number. Slurm's are those of a step, which srun makes.
VARIABLES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
IMPATIENCE = 10.0  # seconds after which a second signal is meant as such
TRIALS = 3  # to start the ranks


def place() -> tuple[int, int]:
    """Rank and number of ranks, as a launcher has it; 0 and 1 without one."""
    for rank, number in VARIABLES:
        if rank in os.environ and number in os.environ:
            return int(os.environ[rank]), int(os.environ[number])
    return 0, 1


def num_to_start(engine: EngineConfig) -> int:
    """Ranks that are asked for and not there: so many as the engine says, or as a batch job has tasks; 0: none."""
    if engine.name != "mpi" or place()[1] > 1:
        return 0
    number = engine.ranks or int(os.environ.get("SLURM_NTASKS", "1"))
    return number if number > 1 else 0


def join(engine: EngineConfig) -> World:
    """The processes that train together; to be entered before anything is asked of it."""
    if engine.name == "stacked":
        return World()
    try:
        from remuda.engines.mpi.communicator import Job
    except (ImportError, RuntimeError) as error:
        raise UserError(_missing(str(error))) from None
    job, started = Job(), place()[1]
    if started != job.num_ranks:
        raise UserError(
            f"{started} ranks were started, but mpi4py's MPI library sees {job.num_ranks}: use the mpirun of the "
            "library that mpi4py was built with, or srun --mpi=pmix"
        )
    if engine.ranks not in (0, job.num_ranks):
        raise UserError(
            f"engine.ranks={engine.ranks}, but {job.num_ranks} were found: start them by `remuda train --engine mpi "
            f"--ranks {engine.ranks}` or `mpirun -n {engine.ranks}`, or leave engine.ranks at 0"
        )
    return job


def start(num_ranks: int, words: list[str], folder: Path, tell: Callable[[str], None]) -> int:
    """Run a command of remuda on so many ranks; returns its exit status.

    A signal to stop goes to every rank, which saves; a second one, some time later, ends them at once. If a rank dies
    before MPI has started, nothing else has happened, so all are started again. Folder is that of the run.
    """
    if importlib.util.find_spec("mpi4py") is None:
        raise UserError(_missing("No module named 'mpi4py'"))
    asked, job = 0.0, mpirun.Job(num_ranks, words)

    def stop(*_: object) -> None:
        nonlocal asked
        asked = asked or time.monotonic()
        late = time.monotonic() - asked > IMPATIENCE
        job.process.send_signal(signal.SIGTERM if late else signal.SIGUSR1)

    before = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
    try:
        status = job.wait()
        for _ in range(TRIALS - 1):
            if job.is_deserted and not asked:
                tell("MPI did not start on all ranks: they are started again")
                job = mpirun.Job(num_ranks, words)
                status = job.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if job.is_done:
        return status
    if not asked:
        _explain(job, status, folder)
    elif not (
        status and job.num_lines
    ):  # who was not yet ready to stop politely has not said anything
        raise Interrupted(f"stopped; {way_on(folder)}")
    return status


def _explain(job: mpirun.Job, status: int, folder: Path) -> None:
    """If ranks have ended in a way that they could not explain themselves."""
    if job.is_deserted:
        raise UserError(
            f"MPI did not start on all ranks, {TRIALS} times: remuda doctor may tell why"
        )
    if job.deaths:
        rank, host, number = job.deaths[0]
        by = f"signal {number} ({signal.strsignal(int(number))})"
        raise UserError(
            f"rank {rank} on {host} was ended by {by}, and all others with it: {way_on(folder)}"
        )
    if status == 0:  # which an mpirun that survives losses is fine with
        raise UserError(f"all ranks have died: {way_on(folder)}")
    if not job.num_lines:
        raise UserError(
            f"the ranks have ended without a word, with status {status}: {way_on(folder)}"
        )


def way_on(folder: Path) -> str:
    """What to do when ranks have died without a word."""
    return (
        f"go on with: {resume_command(folder)}"
        if (folder / "config.toml").exists()
        else "start again"
    )


def _missing(reason: str) -> str:
    return (
        f"engine.name=mpi needs mpi4py and an MPI library ({reason}): load the cluster's MPI module, then "
        "pip install 'remuda[mpi]'"
    )
