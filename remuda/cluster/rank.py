"""Run a remuda command on one rank: ``python -m mpi4py -m remuda.cluster.rank train ...``.

MPI is started before any slow import, because only MPI notices that a rank has died. If a rank dies
even earlier, the others hang while MPI starts, until a time limit ends them.

The rank tells the launcher (remuda.cluster.markers) that MPI has started and how the job has ended.
Rank 0 also tells it every few seconds that it is alive.
"""

import contextlib
import faulthandler
import os
import runpy
import sys
import threading
import time
from pathlib import Path

from remuda.cluster.environment import rank_from_environment
from remuda.cluster.markers import ENDED, MPI_STARTED, ROOT_ALIVE, ROOT_LOST

START_TIMEOUT = 120  # seconds that a rank waits for the others while MPI starts
CALL_INTERVAL = 0.5  # seconds between two calls of MPI
ALIVE_INTERVAL = 2.0  # seconds between two markers of rank 0
CRASHED, LOST = 1, 75  # exit statuses


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


class SignsOfLife(threading.Thread):
    """Shows the other ranks and the launcher that this rank is alive, whatever it computes.

    Open MPI sends heartbeats to other ranks only during calls of MPI. The launcher reads markers.
    """

    def __init__(self, is_root: bool):
        super().__init__(name="signs of life", daemon=True)
        self.is_root, self.is_over = is_root, threading.Event()

    def run(self) -> None:
        """Call MPI twice a second. On rank 0, also write markers."""
        mpi = sys.modules.get("mpi4py.MPI")
        comm = None
        if mpi is not None and mpi.Query_thread() == mpi.THREAD_MULTIPLE:
            comm = mpi.COMM_SELF
        last = 0.0
        while not self.is_over.wait(CALL_INTERVAL):
            if comm is not None:
                comm.Iprobe()
            if self.is_root and time.monotonic() - last > ALIVE_INTERVAL:
                last = time.monotonic()
                with contextlib.suppress(OSError):  # mpirun is gone, and will end this rank
                    os.write(2, ROOT_ALIVE + b"\n")

    def end(self) -> None:
        """Call MPI no more, so that the process can exit."""
        self.is_over.set()
        self.join()


def main() -> None:
    """Start MPI, run the command and exit with its status."""
    is_root = rank_from_environment().rank == 0
    start_mpi()
    write_marker(MPI_STARTED)
    signs = SignsOfLife(is_root)
    signs.start()
    try:
        status = run_command()
    except BaseException:
        write_marker(ENDED[CRASHED])
        raise
    signs.end()
    if is_root:
        write_marker(ENDED.get(_number(status), ENDED[CRASHED]))
    elif status == LOST:
        write_marker(ROOT_LOST)
    sys.exit(status)


def _number(status: int | str | None) -> int:
    if isinstance(status, str):
        return CRASHED
    return status or 0


if __name__ == "__main__":
    main()
