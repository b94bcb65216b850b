"""What training on ranks needs: mpi4py, a launcher, and ranks that really start and speak to each other."""

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from remuda.cluster import launch, mpirun
from remuda.cluster.doctor import probe
from remuda.cluster.doctor.findings import FAILS, MISSING, OK, Finding, shortened
from remuda.config import EngineConfig
from remuda.errors import UserError

PATIENCE = 180.0  # seconds for ranks to start and measure; many of them import PyTorch slowly from a shared folder
BUILD = "pip install --no-binary mpi4py --force-reinstall --no-deps mpi4py"


def are_asked_for(num_ranks: int) -> bool:
    return (
        launch.place()[1] > 1 or num_ranks > 0 or launch.num_to_start(EngineConfig(name="mpi")) > 0
    )


def findings(num_ranks: int) -> Iterator[Finding]:
    """Start so many ranks for a trial; 0: those of the batch job, or else two. Join those that are there already."""
    number = launch.num_to_start(EngineConfig(name="mpi", ranks=num_ranks)) or num_ranks or 2
    yield _job()
    binding, launcher = _mpi4py(), _launcher()
    yield binding
    yield launcher
    if srun := shutil.which("srun"):
        yield _srun(srun)
    if binding.state != OK:
        yield Finding(FAILS, "ranks", "cannot be started without mpi4py: install it as said above")
        return
    has_launcher = launcher.state == OK
    try:
        # One rank needs no launcher.
        answer = (
            probe.ask(num_ranks) if launch.place()[1] > 1 else trial(number if has_launcher else 1)
        )
    except UserError as error:
        yield Finding(FAILS, "ranks", str(error))
        return
    yield from _library(answer)
    if not has_launcher and launch.place()[1] == 1 < number:
        yield Finding(
            FAILS, "ranks", f"{number} cannot be started without a launcher: one alone works"
        )
        return
    yield from _together(answer)


# What is there before anything is started


def _job() -> Finding:
    rank, number = launch.place()
    job = os.environ.get("SLURM_JOB_ID")
    words = [f"rank {rank} of {number}, which are joined"] if number > 1 else []
    if job:
        nodes, tasks = (
            os.environ.get("SLURM_JOB_NUM_NODES", "?"),
            os.environ.get("SLURM_NTASKS", "?"),
        )
        words.append(f"Slurm job {job}, nodes: {nodes}, tasks: {tasks}")
    return Finding(
        OK,
        "job",
        "; ".join(words) or "neither under mpirun nor in a Slurm job: ranks are started from here",
    )


def _mpi4py() -> Finding:
    try:
        if importlib.util.find_spec("mpi4py") is not None:
            return Finding(OK, "mpi4py", importlib.metadata.version("mpi4py"))
    except (ValueError, importlib.metadata.PackageNotFoundError) as error:
        return Finding(MISSING, "mpi4py", f"it is there only in part ({error}): {BUILD}")
    return Finding(
        MISSING,
        "mpi4py",
        "only ranks need it: load the cluster's MPI module, then pip install 'remuda[mpi]'",
    )


def _launcher() -> Finding:
    try:
        path = mpirun.find()
    except UserError as error:
        return Finding(MISSING, "launcher", str(error))
    try:
        said = re.search(
            r".*\d.*", _said([path, "--version"])
        )  # of MPICH's, the first line is a heading
        version = shortened(" ".join(said[0].split()), 60) if said else "of no version"
        options = " ".join(mpirun.options(path, 2)) or "none"
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(
            MISSING, "launcher", f"{path} does not run ({error}): load another MPI module"
        )
    return Finding(OK, "launcher", f"{path}: {version}; options: {options}")


def _srun(srun: str) -> Finding:
    try:
        types = _said([srun, "--mpi=list"])
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(MISSING, "srun", f"{srun} does not run ({error}): start ranks by mpirun")
    if "pmix" in types:
        return Finding(OK, "srun", f"{srun}, knows pmix: srun --mpi=pmix starts ranks")
    return Finding(
        MISSING,
        "srun",
        f"{srun} does not know pmix: with Open MPI, start ranks by mpirun in the batch job",
    )


def _said(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    return result.stdout + result.stderr


# The trial


def trial(number: int) -> dict[str, Any]:
    """What ranks answer that are started as those of a run are."""
    command = [
        sys.executable,
        "-m",
        "mpi4py",
        "-m",
        "remuda.cluster.doctor.probe",
        str(time.time()),
    ]
    if number > 1:
        command = [*mpirun.command(number), *command]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    by_hand = " ".join([*command[:-1], "0"])
    try:
        said, complaints = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{number} have not answered within {PATIENCE:.0f} s: check that hosts can resolve and reach each other, "
            f"and try by hand: {by_hand}"
        ) from None
    finally:
        _end(process)
    answer = read_answer(said)
    if "failed" in answer:
        raise UserError(answer["failed"])
    if process.returncode or not answer:
        reason = shortened(complaints or said) or "nothing was said"
        raise UserError(
            f"{number} ended with status {process.returncode} ({reason}): try by hand: {by_hand}"
        )
    return answer


def read_answer(said: str) -> dict[str, Any]:
    """The line of JSON among whatever else was printed; empty without one."""
    for line in said.splitlines():
        try:
            answer = json.loads(line)
        except ValueError:
            continue
        if isinstance(answer, dict):
            return answer
    return {}


def _end(process: subprocess.Popen[str]) -> None:
    """mpirun takes its ranks along if it is asked; where it does not listen, it is ended."""
    for number, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, None)):
        if process.poll() is None:
            os.killpg(process.pid, number)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue


# What the trial has shown


def _library(answer: dict[str, Any]) -> Iterator[Finding]:
    library = answer["library"]
    yield Finding(OK, "MPI", f"{library}, MPI {answer['standard']}")
    if answer["threads"] == "single":
        yield Finding(
            MISSING,
            "threads",
            "the library allows one thread only: use an MPI that was built with threads",
        )
    else:
        yield Finding(OK, "threads", f"level {answer['threads']}")
    if answer["ulfm"] == "on":
        yield Finding(OK, "ULFM", "on: a run can survive the loss of ranks")
    elif answer["ulfm"] == "off":
        yield Finding(
            MISSING,
            "ULFM",
            "off as these ranks were started: mpirun --with-ft ulfm, which remuda uses too",
        )
    else:
        yield Finding(
            MISSING,
            "ULFM",
            f"{library} has none, so the loss of a rank ends a run, to be resumed: use Open MPI 5",
        )
    if all(rank["device"] == "cpu" for rank in answer["ranks"]):
        yield Finding(OK, "CUDA-aware", "of no importance: ranks have no GPU")
    elif answer["cuda"]:
        yield Finding(
            OK,
            "CUDA-aware",
            "yes: --set engine.cuda_aware=true sends rows straight from a GPU's memory",
        )
    else:
        state = "no" if answer["cuda"] is False else "unknown"
        yield Finding(
            MISSING,
            "CUDA-aware",
            f"{state}: leave engine.cuda_aware=false, rows pass the host's memory",
        )


def _together(answer: dict[str, Any]) -> Iterator[Finding]:
    everyone = answer["ranks"]
    started = (
        f" started and joined in {answer['startup']:.1f} s" if "startup" in answer else " joined"
    )
    yield Finding(OK, "ranks", f"{len(everyone)}{started}")
    for host in dict.fromkeys(rank["host"] for rank in everyone):
        yield _host(
            host, {number: rank for number, rank in enumerate(everyone) if rank["host"] == host}
        )
    yield from _differences(everyone)
    for place, seconds in answer["between"].items():
        yield Finding(
            OK,
            "latency",
            f"{1e6 * seconds['latency']:.1f} µs {place}, a message of {probe.SMALL} bytes",
        )
        rate = probe.LARGE / seconds["exchange"] / 1e6
        size = probe.LARGE // 1_000_000
        yield Finding(
            OK, "bandwidth", f"{rate:,.0f} MB/s {place}, each way, {size} MB both ways at once"
        )
    if "sum" in answer:
        size = 8 * probe.NUM_SUMMED / 1e6
        yield Finding(
            OK,
            "allreduce",
            f"{1e3 * answer['sum']:.1f} ms for {size:.0f} MB over {len(everyone)} ranks",
        )


def _host(host: str, ranks: dict[int, dict[str, Any]]) -> Finding:
    cores = sorted({rank["cores"] for rank in ranks.values()})
    devices = ", ".join(dict.fromkeys(rank["device"] for rank in ranks.values()))
    text = f"{host}: ranks {_spans(list(ranks))}; cores for each: {_spans(cores)}; on {devices}"
    if any(rank["num_usable"] < rank["num_sharing"] for rank in ranks.values()):
        text += "; these ranks share cores, which is slow: ask for more cores, or let the launcher bind them apart"
    return Finding(OK, "host", text)


def _spans(numbers: list[int]) -> str:
    """Ascending numbers as a person writes them: 0-3, 8."""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _differences(everyone: list[dict[str, Any]]) -> Iterator[Finding]:
    """What has to be the same everywhere; of each thing the first rank that differs."""
    first = everyone[0]
    for number, rank in enumerate(everyone):
        if rank["versions"] != first["versions"]:
            there, here = rank["versions"], first["versions"]
            yield Finding(
                FAILS,
                "versions",
                f"rank {number} has {there}, rank 0 {here}: start all from one environment",
            )
            break
    for number, rank in enumerate(everyone):
        if rank["folder"] != first["folder"]:
            text = f"rank {number} is not in rank 0's folder {first['folder'][0]}: start in one that all hosts share"
            yield Finding(FAILS, "folder", text)
            break
