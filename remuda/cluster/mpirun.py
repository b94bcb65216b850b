"""Find mpirun and build the command line that starts ranks with it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from remuda.errors import UserError
from remuda.system.devices import usable_cores


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


def options(mpirun: str, num_ranks: int) -> list[str]:
    """Return the options that Open MPI needs; other MPI libraries need none."""
    text = subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout
    version = re.search(r"Open MPI\)? (\d+)", text)
    if version is None:
        return []
    # A rank runs several threads, so it must not be bound to one core. Open MPI often counts fewer
    # slots than a container has cores.
    flags = ["--oversubscribe", "--bind-to", "none"]
    if os.geteuid() == 0:
        flags.append("--allow-run-as-root")
    if num_ranks > usable_cores():
        flags += ["--mca", "mpi_yield_when_idle", "1"]
    if int(version[1]) >= 5 and os.environ.get("REMUDA_ULFM") != "0":
        flags += ["--with-ft", "ulfm"]
    return flags


def command(num_ranks: int) -> list[str]:
    """Return the mpirun part of a command line. Append the program that the ranks run."""
    path = find()
    return [path, *options(path, num_ranks), "-n", str(num_ranks)]
