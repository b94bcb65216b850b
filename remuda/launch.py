"""Ranks: starting them, and joining those that a launcher has started."""

import ctypes
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from remuda.config import EngineConfig
from remuda.devices import usable_cores
from remuda.engines import World
from remuda.errors import UserError

# What launchers tell the processes they start: rank and number. Slurm's are those of a step, which srun makes.
VARIABLES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
FOREVER = 1e9  # seconds
IMPATIENCE = 10.0  # seconds after which a second signal is meant as such
# What a rank begins with. MPI comes before all that takes long to load, since by MPI a rank that dies is missed. If one
# dies even before, the others wait in MPI's own start, where nothing but the time limit would end them.
RANK = """
import contextlib, faulthandler, os, runpy
with open(os.devnull, "w") as nowhere, contextlib.suppress(ImportError, RuntimeError):
    faulthandler.dump_traceback_later(120, exit=True, file=nowhere)
    import mpi4py.MPI
faulthandler.cancel_dump_traceback_later()
runpy.run_module("remuda", run_name="__main__", alter_sys=True)
"""
RULE = re.compile(r"-{20,}\s*$")  # around what mpirun has to say
REMARK = re.compile(r"NBC_Progress: an error|Error in NBC_\w+\(\)")  # of Open MPI, on messages that a loss cuts off
EXIT = re.compile(r"non-zero\s+(exit\s+code|status)")  # which a rank has explained
DEATH = re.compile(r"process\s+rank\s+(\d+)\s.*?on\s+node\s+(\S+)\s+exited\s+on\s+signal\s+(\d+)", re.DOTALL)


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
        from remuda.engines.mpi import Job
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


def start(num_ranks: int, words: list[str], folder: Path) -> int:
    """Run a command of remuda on so many ranks; returns its exit status.

    A signal to stop goes to every rank, which saves; a second one, some time later, ends them at once. Folder is that
    of the run.
    """
    if importlib.util.find_spec("mpi4py") is None:
        raise UserError(_missing("No module named 'mpi4py'"))
    mpirun = find_mpirun()
    command = [mpirun, *options(mpirun, num_ranks), "-n", str(num_ranks)]
    command += [sys.executable, "-m", "mpi4py", "-c", RANK, *words]
    # In a session of its own, so that a terminal's Ctrl-C comes here alone: mpirun would kill the ranks.
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=_die_together
    )
    assert process.stderr is not None
    deaths: list[tuple[str, str, str]] = []
    said: list[str] = []
    reader = threading.Thread(target=_pass_on, args=(process.stderr, deaths, said), daemon=True)
    reader.start()
    asked = 0.0

    def stop(*_: object) -> None:
        nonlocal asked
        asked = asked or time.monotonic()
        late = time.monotonic() - asked > IMPATIENCE
        process.send_signal(signal.SIGTERM if late else signal.SIGUSR1)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
    try:
        # With a time-out it looks up 20 times a second. Without one it would sleep on if the reader took the signal.
        status = process.wait(FOREVER)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    reader.join(IMPATIENCE)  # longer only if a process that is left behind holds it
    if deaths and not asked:
        rank, host, number = deaths[0]
        by = f"signal {number} ({signal.strsignal(int(number))})"
        raise UserError(f"rank {rank} on {host} was ended by {by}, and all others with it: {way_on(folder)}")
    status = status if status >= 0 else 128 - status
    if status and not (said or asked):
        raise UserError(f"the ranks have ended without a word, with status {status}: {way_on(folder)}")
    return status


def way_on(folder: Path) -> str:
    """What to do when ranks have died without a word."""
    return f"go on with: remuda resume {folder}" if (folder / "config.toml").exists() else "start again"


def _pass_on(lines: IO[bytes], deaths: list[tuple[str, str, str]], said: list[str]) -> None:
    """What ranks and mpirun say, but for what is said better here."""
    for text in sift((line.decode(errors="replace") for line in lines), deaths):
        said.append(text)
        sys.stderr.write(text)
        sys.stderr.flush()


def sift(lines: Iterable[str], deaths: list[tuple[str, str, str]]) -> Iterator[str]:
    """Lines without Open MPI's remarks on messages that a loss cuts off, and mpirun's on ranks that end or die.

    Of those that die, rank, host and signal are added to ``deaths``.
    """
    block: list[str] = []
    num_blank = 0  # lines that belong to remarks; those of several ranks come in any order
    for line in lines:
        if REMARK.match(line):
            num_blank += line.startswith("NBC_Progress")
            continue
        if num_blank and not line.strip():
            num_blank -= 1
            continue
        if not block and not RULE.match(line):
            if not line.startswith("mpirun: Forwarding signal "):
                yield line
            continue
        block.append(line)
        if len(block) > 1 and RULE.match(line):
            text = "".join(block)
            if death := DEATH.search(text):
                deaths.append((death[1], death[2], death[3].rstrip(".")))
            elif not EXIT.search(text):
                yield from block
            block = []
    yield from block


def _die_together() -> None:
    """Where the system can do that: who kills the command that was typed has killed the ranks too."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def find_mpirun() -> str:
    beside = Path(sys.executable).with_name("mpirun")
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    if found is None:
        raise UserError(
            "there is no mpirun, neither beside Python nor on PATH: load the cluster's MPI module, or install Open MPI"
        )
    return found


def options(mpirun: str, num_ranks: int) -> list[str]:
    """For Open MPI; others need none."""
    text = subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout
    version = re.search(r"Open MPI\)? (\d+)", text)
    if version is None:
        return []
    # Ranks have threads, so they are not bound to single cores; slots are often fewer than the cores of a container.
    words = ["--oversubscribe", "--bind-to", "none"]
    if os.geteuid() == 0:
        words.append("--allow-run-as-root")
    if num_ranks > usable_cores():
        words += ["--mca", "mpi_yield_when_idle", "1"]
    if int(version[1]) >= 5 and os.environ.get("REMUDA_ULFM") != "0":
        words += ["--with-ft", "ulfm"]
    return words


def _missing(reason: str) -> str:
    return (
        f"engine.name=mpi needs mpi4py and an MPI library ({reason}): load the cluster's MPI module, then "
        "pip install 'remuda[mpi]'"
    )
