"""Find mpirun and build the command line that starts ranks with it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from remuda.cluster.environment import STARTED_BY_REMUDA
from remuda.cluster.hosts import Host, describe, network, ssh_command
from remuda.errors import UserError
from remuda.system.devices import usable_cores

# ssh starts ranks with an almost empty environment. mpirun passes on the variables with these
# names: what remuda, Python, PyTorch and its libraries read, and how they find programs and files.
# Open MPI passes on its own settings itself.
FORWARDED = re.compile(
    r"(REMUDA|MPI4PY|OMP|GOMP|KMP|MKL|OPENBLAS|CUDA|NVIDIA|CUBLAS|CUDNN|TORCH|PYTORCH|"
    r"TORCHINDUCTOR|TRITON|UCX|SSL_CERT|LC)_\w+|PYTHON\w+|PATH|LD_LIBRARY_PATH|LD_PRELOAD|"
    r"LANG|COLUMNS|CC|CXX|XDG_CACHE_HOME|(https?|no|all)_proxy|(HTTPS?|NO|ALL)_PROXY"
)


def find() -> str:
    """Return the path of mpirun. Prefer one that is installed next to Python."""
    installed = Path(sys.executable).with_name("mpirun")
    found = str(installed) if installed.exists() else shutil.which("mpirun")
    if found is None:
        raise UserError(
            "cannot find mpirun, neither next to Python nor on PATH: "
            "load the cluster's MPI module, or install Open MPI"
        )
    return found


def options(
    mpirun: str, num_ranks: int, hosts: Sequence[Host] = (), timeout: float = 30.0
) -> list[str]:
    """Return the options that Open MPI needs; other MPI libraries need none.

    A rank that is silent for ``timeout`` seconds counts as lost.
    """
    version = open_mpi_version(mpirun)
    if version == 0 and hosts:
        raise UserError(
            f"--hosts requires Open MPI, but {mpirun} belongs to another MPI library: load Open "
            "MPI, or start the ranks with your mpirun and without --hosts"
        )
    if version == 0:
        return []
    # A rank runs several threads, so it must not be bound to one core. Open MPI often counts fewer
    # slots than a container has cores.
    flags = ["--oversubscribe", "--bind-to", "none"]
    if os.geteuid() == 0:
        flags.append("--allow-run-as-root")
    if max([num_ranks] if not hosts else [host.slots for host in hosts]) > usable_cores():
        flags += ["--mca", "mpi_yield_when_idle", "1"]
    if version >= 5 and os.environ.get("REMUDA_ULFM") != "0":
        flags += ["--with-ft", "ulfm", *_detector_options(timeout)]
    return flags + (_host_options(mpirun, version, hosts) if hosts else [])


def _detector_options(timeout: float) -> list[str]:
    """Return the options of Open MPI's failure detector: ranks send heartbeats to each other.

    Open MPI sends them when a rank calls MPI, which a thread of each rank does (cluster.rank). Its
    own thread for this purpose sometimes crashes in MPI_Init, seen with Open MPI 5.0.11.
    """
    settings = {"": "true", "_period": timeout / 8, "_timeout": timeout}
    flags: list[str] = []
    for name, value in settings.items():
        flags += ["--mca", f"mpi_ft_detector{name}", str(value)]
    return flags


def open_mpi_version(mpirun: str) -> int:
    """Return the major version of Open MPI that mpirun belongs to; 0 for other MPI libraries."""
    text = subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout
    version = re.search(r"Open MPI\)? (\d+)", text)
    return int(version[1]) if version else 0


def _host_options(mpirun: str, version: int, hosts: Sequence[Host]) -> list[str]:
    """Return the options that start ranks on these hosts by ssh, rank 0 on the first."""
    if job := os.environ.get("SLURM_JOB_ID"):
        raise UserError(
            f"--hosts cannot be used in Slurm job {job}, because Slurm chooses the hosts: "
            "use --ranks, or start the command outside the job"
        )
    flags = ["--host", describe(hosts)]
    # Other hosts look for Open MPI in the same folder. They find a system's installation anyway.
    prefix = Path(mpirun).resolve().parents[1]
    if prefix != Path("/usr"):
        flags += ["--prefix", str(prefix)]
    flags += ["--mca", "plm_ssh_agent" if version >= 5 else "plm_rsh_agent", ssh_command()]
    # Networks of containers have the same addresses on many hosts, but do not connect them. Open
    # MPI tries them too, and hangs.
    is_chosen = any(name.startswith("OMPI_MCA_btl_tcp_if_") for name in os.environ)
    if not is_chosen and (common := network(hosts)):
        flags += ["--mca", "btl_tcp_if_include", common]
    for name in sorted(os.environ):
        if FORWARDED.fullmatch(name) and name != STARTED_BY_REMUDA:
            flags += ["-x", name]
    return [*flags, "-x", f"{STARTED_BY_REMUDA}=1"]


def command(num_ranks: int, hosts: Sequence[Host] = (), timeout: float = 30.0) -> list[str]:
    """Return the mpirun part of a command line. Append the program that the ranks run."""
    path = find()
    return [path, *options(path, num_ranks, hosts, timeout), "-n", str(num_ranks)]
