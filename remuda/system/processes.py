"""Identify a process, even among other hosts and later processes with the same number."""

import os
import signal
import sys
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """The identity of a process; no other process has it, not even a later one with its number."""

    host: str
    pid: int
    # Clock ticks from the start of the host to that of the process; 0 if the system has no record.
    born: int

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs; ask only on its own host."""
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
    """Return ``born`` of a process on this host, or None if no such process is running."""
    if sys.platform != "linux":
        try:
            os.kill(pid, 0)
        except OSError:
            return None
        return 0
    try:
        # The name is in brackets and may hold anything. After it: state, 18 other fields, start.
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in "ZX" else int(words[19])
