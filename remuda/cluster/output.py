"""Read the stderr of mpirun and its ranks, and drop the lines that do not help the user.

Ranks mark their progress with single bytes (remuda.cluster.markers). mpirun and Open MPI comment on
every rank that exits or dies; remuda reports these events itself, in one sentence.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from remuda.cluster import markers

MARKER = re.compile(b"[%s]" % b"".join(markers.ALL) + rb"(\n?)")
RULER = re.compile(r"-{20,}\s*$")  # the line above and below a notice from mpirun
# Open MPI prints these lines when a lost rank interrupts a message, or when a rank exits before it
# has received everything.
REMARK = re.compile(
    r"NBC_Progress: an error"
    r"|Error in NBC_\w+\(\)"
    r"|\[\S+:\d+\] pmix_ptl_base: send_msg: write failed"
    r"|\[warn\] Epoll MOD"
    r"|\[\S+:\d+\] plm:\w+: Warning: setpgid"  # ssh has already started
)
# mpirun sometimes fails to start when another job has just ended.
START_FAILURE = re.compile(r"listener thread failed to start")
# No need to show this notice: the rank itself has explained why it exited.
EXIT = re.compile(r"non-zero\s+(exit\s+code|status)")
# mpirun ends the whole job if it loses a daemon, its process on another host.
LOST_DAEMON = re.compile(
    r"lost\s+communication\s+with.*?Remote\s+daemon:.*?on\s+node\s+(\S+)", re.S
)
DEATH = re.compile(
    r"process\s+rank\s+(\d+)\s.*?on\s+node\s+(\S+)\s+exited\s+on\s+signal\s+(\d+)", re.DOTALL
)


class Death(NamedTuple):
    """A rank that was ended by a signal, as mpirun reports it."""

    rank: str
    host: str
    signal: str  # the signal's number


class Output:
    """The events found so far in the output of mpirun and its ranks."""

    def __init__(self):
        self.mpi_started = False  # on at least one rank
        self.mpirun_failed = False  # before it started any rank
        self.ended: int | None = None  # the exit status that rank 0 or a crashed rank announced
        self.root_lost = False  # a rank has ended because rank 0 was lost
        self.num_signs = 0  # signs of life of rank 0
        self.lost_daemons: list[str] = []  # hosts with which mpirun has lost contact
        self.deaths: list[Death] = []
        # The number of blank lines to drop. They belong to remarks, or to markers whose newline
        # arrives later because several ranks write at the same time.
        self._num_blank = 0

    def lines(self, chunks: Iterable[bytes]) -> Iterator[str]:
        """Yield the lines that the user should see, and record the events in the other lines."""
        return self._drop_remarks(self._split(chunks))

    def _split(self, chunks: Iterable[bytes]) -> Iterator[str]:
        """Remove all markers from the stream, and split the rest into lines."""
        rest = b""
        for chunk in chunks:
            self._note_markers(chunk)
            complete, newline, rest = (rest + chunk).rpartition(b"\n")
            *lines, start = MARKER.sub(self._drop_marker, complete + newline).split(b"\n")
            rest = start + rest
            yield from (f"{line.decode(errors='replace')}\n" for line in lines)
        if rest := MARKER.sub(b"", rest):
            yield rest.decode(errors="replace")

    def _note_markers(self, chunk: bytes) -> None:
        self.mpi_started = self.mpi_started or markers.MPI_STARTED in chunk
        self.root_lost = self.root_lost or markers.ROOT_LOST in chunk
        self.num_signs += markers.ROOT_ALIVE in chunk
        for status, marker in markers.ENDED.items():
            if marker in chunk and self.ended is None:
                self.ended = status

    def _drop_marker(self, match: re.Match[bytes]) -> bytes:
        """Drop a marker and its newline. If the newline arrives later, drop that blank line."""
        self._num_blank += not match[1]
        return b""

    def _drop_remarks(self, lines: Iterable[str]) -> Iterator[str]:
        notice: list[str] = []  # lines from a ruler to the next one
        for line in lines:
            if REMARK.match(line):
                self._num_blank += line.startswith("NBC_Progress")
            elif self._num_blank and not line.strip():
                self._num_blank -= 1
            elif notice or RULER.match(line):
                notice.append(line)
                if len(notice) > 1 and RULER.match(line):
                    if self._is_worth_showing("".join(notice)):
                        yield from notice
                    notice = []
            elif not line.startswith("mpirun: Forwarding signal "):
                yield line
        yield from notice

    def _is_worth_showing(self, notice: str) -> bool:
        if death := DEATH.search(notice):
            self.deaths.append(Death(*death.groups()))
            return False
        if daemon := LOST_DAEMON.search(notice):
            self.lost_daemons.append(daemon[1])
            return False
        if START_FAILURE.search(notice):
            self.mpirun_failed = True
            return False
        return EXIT.search(notice) is None
