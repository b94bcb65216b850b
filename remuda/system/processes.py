"""Identify a process across hosts, and across later processes with the same number."""

import os
import signal
import sys
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process, distinct from all others and from later ones with the same number."""

    host: str
    pid: int
    born: (
        int  # clock ticks from the host's start to the process's; 0 where the system does not tell
    )

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs; ask only on its own host."""
        return birth(self.pid) == self.born

    def kill(self) -> bool:
        """Kill the process on this host; return whether it was there."""
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
    """Return when a living process of this host started, or None if there is no such process."""
    if sys.platform != "linux":
        try:
            os.kill(pid, 0)
        except OSError:
            return None
        return 0
    try:
        # After the name in brackets, which may hold anything: state, 18 other fields, start.
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in "ZX" else int(words[19])
