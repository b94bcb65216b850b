"""Run mpirun and its ranks, and detect when they fail to start."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from remuda.cluster import mpirun
from remuda.cluster.environment import LEASE, SHOWS_PROGRESS, STARTED_BY_REMUDA
from remuda.cluster.hosts import Host, complaints
from remuda.cluster.lease import Lease
from remuda.cluster.markers import PROGRESS
from remuda.cluster.output import Output

POLL_INTERVAL = 0.05  # seconds
START_GAP = 1.0  # maximum seconds between the starts of two ranks on a host
CHECK_INTERVAL = 20.0  # seconds between two checks of the hosts while MPI starts
END_TIMEOUT = 10.0  # seconds to wait for mpirun to exit, and for the rest of its output
KILL_AFTER = 2.0  # seconds to wait for mpirun after a request to terminate
END_GRACE = 3.0  # seconds for mpirun to exit after rank 0; it may wait for a lost host
SILENCE = 120.0  # seconds without a sign of life from rank 0 until the job counts as lost
FAREWELL = "stopped after round "  # a run that restarts does not end
CHUNK = 1 << 16  # bytes read at once


class Launcher:
    """One mpirun process whose ranks run a remuda command and report on stderr."""

    def __init__(
        self,
        num_ranks: int,
        arguments: list[str],
        hosts: Sequence[Host] = (),
        timeout: float = 30.0,  # seconds of silence after which a rank counts as lost
        show: Callable[[str], None] | None = None,  # receives rank 0's lines about its progress
    ):
        command = [
            *mpirun.command(num_ranks, hosts, timeout),
            *(("-x", LEASE) if hosts else ()),
            *(("-x", SHOWS_PROGRESS) if hosts and show else ()),
            *(sys.executable, "-m", "mpi4py", "-m", "remuda.cluster.rank"),
            *arguments,
        ]
        self.output, self.timeout, self.lease = Output(), timeout, Lease(hosts, timeout / 2)
        self._silent = self._over = 0.0  # seconds without a sign of life, and since the end
        self._num_signs = 0
        self.hosts, self._until_check = hosts, CHECK_INTERVAL
        self._num_alive, self._gap = 0, 0.0  # ranks on this host, and seconds since they changed
        self.is_silent = False  # rank 0 gave no sign of life for a long time
        self.num_lines = 0  # lines shown to the user
        self.is_replaced = False  # the ranks stop because other ranks will continue the run
        self._is_rank_missing = False  # a rank died before MPI had started
        # An mpirun that does not survive the loss of a rank ends the other ranks itself.
        self.survives_failures = "--with-ft" in command
        shown = {SHOWS_PROGRESS: "1"} if show else {}
        # mpirun gets its own session, so that Ctrl-C in a terminal reaches only this process. If
        # mpirun received the signal, it would kill the ranks.
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if show else None,
            stderr=subprocess.PIPE,
            env={**os.environ, STARTED_BY_REMUDA: "1", LEASE: self.lease.value, **shown},
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        self._readers = [threading.Thread(target=self._forward_output, daemon=True)]
        if show:
            forward = partial(self._forward_stdout, show)
            self._readers.append(threading.Thread(target=forward, daemon=True))
        for reader in self._readers:
            reader.start()

    @property
    def failed_to_start(self) -> bool:
        """Whether a rank died before MPI had started, or mpirun started no rank at all."""
        return self._is_rank_missing or self.output.mpirun_failed

    def stop_for_restart(self) -> None:
        """Ask the ranks to save the run and end. The user need not know."""
        self.is_replaced = True
        self.process.send_signal(signal.SIGUSR1)

    def wait(self, poll: Callable[[], None]) -> int:
        """Wait for the ranks and return mpirun's exit status (128 + n after signal n).

        Call ``poll`` about 20 times per second. This method does not block: if a signal is
        delivered to the reader's thread, it does not wake up this thread. The time that passes
        while this process is suspended does not count.
        """
        while self.process.poll() is None:
            is_starting = not (self.output.mpi_started or self.failed_to_start)
            if is_starting and self.survives_failures and self._is_stuck(POLL_INTERVAL):
                self._is_rank_missing = True
                self.end()
            elif self._is_over(POLL_INTERVAL):
                self.end()
            poll()
            time.sleep(POLL_INTERVAL)
        self.lease.close()
        # Do not wait forever: a leftover process may keep the pipe open.
        for reader in self._readers:
            reader.join(END_TIMEOUT)
        status = self.process.returncode
        return status if status >= 0 else 128 - status

    def _is_stuck(self, seconds: float) -> bool:
        """Return whether MPI cannot start, because a rank died on this host or a host is lost.

        Some seconds have passed since the last call.
        """
        self._gap += seconds
        self._until_check -= seconds
        alive, expected = _count_ranks(self.process.pid)
        if alive != self._num_alive or alive == expected:
            self._num_alive, self._gap = alive, 0.0
        if self._gap > START_GAP:
            return True
        if self.hosts and self._until_check < 0:
            self._until_check = CHECK_INTERVAL
            return bool(complaints(self.hosts))
        return False

    def _is_over(self, seconds: float) -> bool:
        """Return whether the job has ended, although mpirun still waits, perhaps for a lost host.

        Some seconds have passed since the last call.
        """
        output = self.output
        self._silent += seconds
        if output.num_signs != self._num_signs:
            self._num_signs, self._silent = output.num_signs, 0.0
        if output.ended is not None:
            self._over += seconds
            return self._over > END_GRACE
        # A rank that was cut off itself also believes that rank 0 was lost.
        if output.root_lost and self._silent > self.timeout:
            return True
        self.is_silent = output.mpi_started and self._silent > max(SILENCE, 4 * self.timeout)
        return self.is_silent

    def end(self) -> None:
        """End mpirun and the ranks that it can reach."""
        self.lease.close()
        children = _children(self.process.pid)
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(KILL_AFTER)
        self.process.kill()
        # The ssh processes of lost hosts would keep the pipe open.
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self.process.wait()

    def _forward_output(self) -> None:
        for line in self.output.lines(self._chunks()):
            is_farewell = self.is_replaced and line.startswith(FAREWELL)
            if not (self.failed_to_start or is_farewell):
                self.num_lines += 1
                sys.stderr.write(line)
                sys.stderr.flush()

    def _forward_stdout(self, show: Callable[[str], None]) -> None:
        """Print the lines of stdout, except those about rank 0's progress."""
        assert self.process.stdout is not None
        for content in self.process.stdout:
            line = content.decode(errors="replace")
            if line.startswith(PROGRESS):
                show(line.removeprefix(PROGRESS))
            else:
                sys.stdout.write(line)
                sys.stdout.flush()

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
    for child in _children(pid):
        with suppress(OSError):
            variables = Path(f"/proc/{child}/environ").read_bytes()
            size = re.search(rb"\0OMPI_COMM_WORLD_LOCAL_SIZE=(\d+)", variables)
            if size:
                alive, expected = alive + 1, int(size[1])
    return alive, expected


def _children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def _end_with_parent() -> None:
    """Make Linux end mpirun, and with it the ranks, if the command that started it is killed."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)
