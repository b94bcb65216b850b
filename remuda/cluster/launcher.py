"""Run mpirun and its ranks, and detect when they fail to start."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from remuda.cluster import mpirun
from remuda.cluster.environment import STARTED_BY_REMUDA
from remuda.cluster.hosts import Host
from remuda.cluster.output import Output

POLL_INTERVAL = 0.05  # seconds
START_GAP = 1.0  # maximum seconds between the starts of two ranks on a host
END_TIMEOUT = 10.0  # seconds to wait for mpirun to exit, and for the rest of its output
CHUNK = 1 << 16  # bytes read at once


class Launcher:
    """One mpirun process whose ranks run a remuda command and report on stderr."""

    def __init__(self, num_ranks: int, arguments: list[str], hosts: Sequence[Host] = ()):
        command = [
            *mpirun.command(num_ranks, hosts),
            *(sys.executable, "-m", "mpi4py", "-m", "remuda.cluster.rank"),
            *arguments,
        ]
        self.output = Output()
        self.num_lines = 0  # lines shown to the user
        self._is_rank_missing = False  # a rank died before MPI had started
        # An mpirun that does not survive the loss of a rank ends the other ranks itself.
        self.survives_failures = "--with-ft" in command
        # mpirun gets its own session, so that Ctrl-C in a terminal reaches only this process. If
        # mpirun received the signal, it would kill the ranks.
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, STARTED_BY_REMUDA: "1"},
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        self._reader = threading.Thread(target=self._forward_output, daemon=True)
        self._reader.start()

    @property
    def failed_to_start(self) -> bool:
        """Whether a rank died before MPI had started, or mpirun started no rank at all."""
        return self._is_rank_missing or self.output.mpirun_failed

    def wait(self) -> int:
        """Wait for the ranks and return mpirun's exit status (128 + n after signal n).

        This method polls instead of blocking: if a signal is delivered to the reader's thread, it
        does not wake up this thread.
        """
        num_alive, since = 0, time.monotonic()
        while self.process.poll() is None:
            if self.survives_failures and not (self.output.mpi_started or self.failed_to_start):
                alive, expected = _count_ranks(self.process.pid)
                if alive != num_alive or alive == expected:
                    num_alive, since = alive, time.monotonic()
                elif time.monotonic() - since > START_GAP:
                    self._is_rank_missing = True
                    self._end()
            time.sleep(POLL_INTERVAL)
        # Do not wait forever: a leftover process may keep the pipe open.
        self._reader.join(END_TIMEOUT)
        status = self.process.returncode
        return status if status >= 0 else 128 - status

    def _end(self) -> None:
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_TIMEOUT)
        self.process.kill()

    def _forward_output(self) -> None:
        for line in self.output.lines(self._chunks()):
            if not self.failed_to_start:
                self.num_lines += 1
                sys.stderr.write(line)
                sys.stderr.flush()

    def _chunks(self) -> Iterator[bytes]:
        """Yield mpirun's output as soon as it arrives."""
        assert self.process.stderr is not None
        while chunk := self.process.stderr.read1(CHUNK):  # type: ignore[attr-defined]
            yield chunk


def _count_ranks(pid: int) -> tuple[int, int]:
    """Return how many of mpirun's ranks are alive on this host, and how many it should start here.

    The second number comes from the environment of a living rank. It is 0 if no rank is alive.
    """
    alive, expected = 0, 0
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in path.read_text().split():
                variables = Path(f"/proc/{child}/environ").read_bytes()
                size = re.search(rb"\0OMPI_COMM_WORLD_LOCAL_SIZE=(\d+)", variables)
                if size:
                    alive, expected = alive + 1, int(size[1])
    return alive, expected


def _end_with_parent() -> None:
    """Make Linux end mpirun, and with it the ranks, if the command that started it is killed."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)
