"""Run a remuda command on one rank: ``python -m mpi4py -m remuda.cluster.rank train ...``.

MPI is started before any slow import, because only MPI notices that a rank has died. If a rank dies
even earlier, the others hang while MPI starts, until a time limit ends them.

The rank tells the launcher (remuda.cluster.markers) that MPI has started, and that its command has
succeeded.
"""

import contextlib
import faulthandler
import os
import runpy
import sys
from pathlib import Path

from remuda.cluster.markers import COMMAND_SUCCEEDED, MPI_STARTED

START_TIMEOUT = 120  # seconds that a rank waits for the others while MPI starts


def start_mpi() -> None:
    """Start MPI. If it cannot be loaded, the command reports the error later."""
    with Path(os.devnull).open("w") as devnull:
        faulthandler.dump_traceback_later(START_TIMEOUT, exit=True, file=devnull)
        with contextlib.suppress(ImportError, RuntimeError):
            import mpi4py.MPI  # noqa: F401
        faulthandler.cancel_dump_traceback_later()


def run_command() -> int | str | None:
    """Run ``remuda`` with this process's arguments and return its exit status or message."""
    try:
        runpy.run_module("remuda", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code
    return 0


def write_marker(marker: bytes) -> None:
    """Write a marker to stderr immediately, after any buffered text."""
    sys.stderr.flush()
    os.write(2, marker + b"\n")


def main() -> None:
    """Start MPI, run the command and exit with its status."""
    start_mpi()
    write_marker(MPI_STARTED)
    status = run_command()
    if not status:
        write_marker(COMMAND_SUCCEEDED)
    sys.exit(status)


if __name__ == "__main__":
    main()
