"""Check the batch job, mpi4py, mpirun and srun before any rank is started."""

import importlib.metadata
import importlib.util
import os
import re
import subprocess

from remuda.cluster import mpirun
from remuda.cluster.doctor.findings import MISSING, OK, Finding, shortened
from remuda.cluster.environment import rank_from_environment
from remuda.errors import UserError

BUILD = "pip install --no-binary mpi4py --force-reinstall --no-deps mpi4py"


def job() -> Finding:
    """Report the ranks or the batch job that this process belongs to."""
    rank, num_ranks = rank_from_environment()
    parts = [f"rank {rank} of {num_ranks}; the test uses these ranks"] if num_ranks > 1 else []
    if number := os.environ.get("SLURM_JOB_ID"):
        nodes = os.environ.get("SLURM_JOB_NUM_NODES", "?")
        tasks = os.environ.get("SLURM_NTASKS", "?")
        parts.append(f"Slurm job {number}, nodes: {nodes}, tasks: {tasks}")
    no_job = "neither under mpirun nor in a Slurm job: ranks are started from here"
    return Finding(OK, "job", "; ".join(parts) or no_job)


def mpi4py() -> Finding:
    """Report whether mpi4py is installed. Only a started rank can show whether it works."""
    try:
        if importlib.util.find_spec("mpi4py") is not None:
            return Finding(OK, "mpi4py", importlib.metadata.version("mpi4py"))
    except (ValueError, importlib.metadata.PackageNotFoundError) as error:
        return Finding(MISSING, "mpi4py", f"only partly installed ({error}): {BUILD}")
    advice = "load the cluster's MPI module, then pip install 'remuda[mpi]'"
    return Finding(MISSING, "mpi4py", f"needed only for ranks: {advice}")


def launcher() -> Finding:
    """Report the path and version of mpirun, and the options that remuda passes to it."""
    try:
        path = mpirun.find()
    except UserError as error:
        return Finding(MISSING, "launcher", str(error))
    try:
        # Take the first line with a digit, because MPICH prints a heading above the version.
        line = re.search(r".*\d.*", _output([path, "--version"]))
        version = shortened(" ".join(line[0].split()), 60) if line else "unknown version"
        options = " ".join(mpirun.options(path, 2)) or "none"
    except (OSError, subprocess.SubprocessError) as error:
        text = f"cannot run {path} ({error}): load another MPI module"
        return Finding(MISSING, "launcher", text)
    return Finding(OK, "launcher", f"{path}: {version}; options: {options}")


def srun(path: str) -> Finding:
    """Report whether Slurm's srun can start Open MPI ranks."""
    try:
        types = _output([path, "--mpi=list"])
    except (OSError, subprocess.SubprocessError) as error:
        text = f"cannot run {path} ({error}): start ranks with mpirun"
        return Finding(MISSING, "srun", text)
    if "pmix" in types:
        return Finding(OK, "srun", f"{path} supports PMIx: srun --mpi=pmix starts ranks")
    advice = "with Open MPI, start ranks with mpirun in the batch job"
    return Finding(MISSING, "srun", f"{path} does not support PMIx: {advice}")


def _output(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    return result.stdout + result.stderr
