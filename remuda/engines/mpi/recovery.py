"""Connect the remaining ranks of an MPI job after a rank has failed.

Some MPI libraries survive the failure of a rank (ULFM). There, a rank that notices a failure
revokes the communicators, so that no rank waits forever: every remaining rank raises RanksLost.
After ``recover`` the remaining ranks continue with new communicators.
"""

import os
import time
from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import Any, NoReturn

import numpy as np
from mpi4py import MPI

from remuda.engines.communicator import Communicator, LostRank
from remuda.errors import RanksLost, StoppedByFailure
from remuda.system.signals import StopSignals

SWITCH = "OMPI_MCA_mpi_ft_enable"  # mpirun --with-ft ulfm sets it for the ranks
DOUBT = 5.0  # seconds to wait for MPI to report the failure behind an error
PAUSE = 2e-3  # seconds between two checks of other ranks
OVER, WHOLE = 1, 2  # bits that ranks agree on: the job is over, and no rank was lost
FAILURES = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED)


def has_ulfm() -> bool:
    """Return whether the MPI library can survive failures.

    mpi4py defines the functions for all libraries, but in others they have no effect.
    """
    name, version = MPI.get_vendor()
    return name == "Open MPI" and version[0] >= 5


def survives_failures() -> bool:
    """Return whether this job was started so that it survives failures."""
    return has_ulfm() and os.environ.get(SWITCH, "0").lower() in ("1", "true")


class RecoveringCommunicator(Communicator):
    """A communicator that can shrink to the remaining ranks.

    ``base`` connects all remaining ranks, ``comm`` carries rows, ``control`` carries messages that
    end the job. ``spare`` carries rows after an interruption, when ``comm`` may hold messages that
    no rank reads. ``side`` carries messages that nobody waits for.
    """

    remaining: Any = MPI.COMM_WORLD  # shared by this job and later jobs of the same process

    def __init__(self) -> None:
        self.host = MPI.Get_processor_name()
        remaining = RecoveringCommunicator.remaining
        self.base = self.comm = self.control = self.spare = self.side = remaining
        self.rank, self.num_ranks = self.base.rank, self.base.size
        self.local_rank, self.num_sharing = 0, 1
        self.signals, self.is_stopping, self.waited = StopSignals(), False, 0.0
        self.original_ranks, self.lost, self.absent = range(self.num_ranks), [], frozenset()
        self._first, self._hosts = self.base.group, {}
        self._given_up: list[Any] = []  # requests and communicators that MPI may still use
        self._others: list[dict[str, Any]] = []  # facts that each rank reported about itself
        self._is_recovering = self._is_settled = False
        self._speaker = 0  # the rank that tells the user how the job ends

    @abstractmethod
    def _obey(self) -> None:
        """Raise the exception that a signal or another rank asks for."""

    @abstractmethod
    def _talking(self) -> AbstractContextManager[None]:
        """Wrap MPI calls, and pass their errors to ``_handle``."""

    def _connect(self) -> None:
        """Create communicators for all remaining ranks, and exchange facts about the ranks."""
        self.rank, self.num_ranks, self._is_settled = self.base.rank, self.base.size, False
        self.original_ranks = MPI.Group.Translate_ranks(self.base.group, None, self._first)
        with self._talking():
            self.comm, self.control, self.spare, self.side = (self.base.Dup() for _ in range(4))
            for comm in (self.base, self.comm, self.control, self.spare, self.side):
                comm.Set_errhandler(MPI.ERRORS_RETURN)  # mpi4py turns errors into exceptions
            facts = {"host": self.host, "cores": cores(), "is_stopping": self.is_stopping}
            self._others = self.all_gather(facts)
        self.is_stopping = any(other["is_stopping"] for other in self._others)
        hosts = [other["host"] for other in self._others]
        self._hosts.update(zip(self.original_ranks, hosts, strict=True))

    def _find_neighbours(self) -> None:
        """Find out which ranks run on the same host, and how many share this rank's cores."""
        here = [other for other in self._others if other["host"] == self.host]
        before = self._others[: self.rank]
        self.local_rank = sum(other["host"] == self.host for other in before)
        own = set(cores())
        self.num_sharing = sum(not own.isdisjoint(other["cores"]) for other in here)

    def arrange(self, grid: tuple[int, int]) -> None:
        with self._talking():
            torus = self.comm.Create_cart(grid, periods=[True, True], reorder=False)
            self.comm.Free()
            self.comm = torus

    def _handle(self, error: MPI.Exception) -> NoReturn:
        """Revoke the communicators if a lost rank caused the error; otherwise raise the error."""
        if not (survives_failures() and self._is_failure(error)):
            raise error
        self._revoke()

    def _revoke(self) -> NoReturn:
        for comm in (self.base, self.comm, self.control, self.spare):  # see posting for ``side``
            comm.Revoke()
        raise RanksLost("ranks were lost") from None

    def _is_failure(self, error: MPI.Exception) -> bool:
        """Return whether a lost rank caused an error.

        MPI does not say which of several requests failed, so wait until it reports a lost rank.
        """
        if error.Get_error_class() in FAILURES:
            return True
        end = time.monotonic() + DOUBT
        while time.monotonic() < end:
            MPI.COMM_SELF.Iprobe()  # lets the library make progress
            if self.base.Is_revoked() or self.base.Get_failed().size > 0:
                return True
            time.sleep(PAUSE)
        return False

    def _reconnect(self) -> None:
        """Connect the remaining ranks, even if more ranks fail meanwhile."""
        while True:
            if not self._is_settled:
                self._settle(0, needs_root=True)
            self._given_up += [self.base, self.comm, self.control, self.spare, self.side]
            RecoveringCommunicator.remaining = self.base = self.base.Shrink()
            try:
                self._connect()
                break
            except RanksLost:
                continue
        known = {*self.original_ranks, *(lost.rank for lost in self.lost)}
        missing = [rank for rank in range(self._first.size) if rank not in known]
        unknown = "an unknown host"
        news = [LostRank(rank, self._hosts.get(rank, unknown)) for rank in missing]
        self.lost = [*self.lost, *news]

    def _settle(self, bits: int, needs_root: bool = False) -> int:
        """Return the bits that all remaining ranks have set. All ranks get the same result.

        Every rank must call this once before it leaves these communicators. With ``needs_root``,
        raise if rank 0 is lost: the job ends, and Open MPI's agreement without it sometimes hangs.
        """
        self._is_settled = True
        while True:
            flag = np.array([bits], dtype=np.int32)
            try:
                request = self.base.Iagree(flag)
                while not request.Test():
                    if needs_root:
                        self._check_root()
                    time.sleep(PAUSE)
                return int(flag[0])
            except MPI.Exception as error:
                if not self._is_failure(error):
                    raise
                self.base.Ack_failed()

    def _check_root(self) -> None:
        """Raise if the rank that was rank 0 at first is lost."""
        failed = self.base.Get_failed()
        if 0 in MPI.Group.Translate_ranks(failed, None, self._first):
            gone = MPI.Group.Translate_ranks(failed, None, self.base.group)
            self._speaker = min(set(range(self.num_ranks)) - {*gone})
            host = self._hosts.get(0, "an unknown host")
            raise StoppedByFailure(f"rank 0 on {host} was lost")


def cores() -> list[int]:
    """Return the CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
