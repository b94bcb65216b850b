"""Identify processes uniquely across hosts, even if the system reuses their numbers."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """Identify a process uniquely, even if a later process gets the same number."""

    host: str
    pid: int
    # Clock ticks between the start of the host and the start of the process; 0 if unknown.
    born: int

    @property
    def is_alive(self) -> bool:
        """Return whether the process is still running. Call this only on its own host."""
        return birth(self.pid) == self.born

    def kill(self) -> bool:
        """Kill the process on this host; return whether it was running."""
        try:
            if self.is_alive:
                os.kill(self.pid, signal.SIGKILL)
                return True
        except OSError:
            pass
        return False


def this_process(host: str) -> Process:
    """Describe the calling process."""
    born = birth(os.getpid())
    assert born is not None
    return Process(host, os.getpid(), born)


def birth(pid: int) -> int | None:
    """Return the start time (``born``) of a process on this host, or None if it is not running."""
    if sys.platform != "linux":
        try:
            os.kill(pid, 0)
        except OSError:
            return None
        return 0
    try:
        # The name is in parentheses and may contain any character. The state, 18 other fields and
        # the start time follow.
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in "ZX" else int(words[19])


def age() -> float:
    """Return the seconds since this process started.

    Outside Linux, return its processor time, which is nearly the same while it only imports.
    """
    if sys.platform != "linux":
        return time.process_time()
    born = this_process("").born / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - born
