"""The ranks that are left of an MPI job, the communicators among them, and what happens when one is lost.

Where the library survives that (ULFM), whoever misses a rank revokes the communicators, so that nobody waits for ever:
RanksLost is raised at every rank that is left, and after ``recover`` they go on with new communicators.
"""

import os
import time
from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import Any, NoReturn

import numpy as np
from mpi4py import MPI

from remuda.engines.communicator import Lost, Transport
from remuda.errors import RanksLost

SWITCH = "OMPI_MCA_mpi_ft_enable"  # what mpirun --with-ft ulfm sets for the ranks
DOUBT = 5.0  # seconds in which an error that may come from a loss must turn out to
PAUSE = 2e-3  # seconds between two looks at what others do
OVER, WHOLE = 1, 2  # what ranks settle: that all is over, and that none was lost


def has_ulfm() -> bool:
    """Whether the library can survive losses. mpi4py has the functions for others too, where they mean nothing."""
    name, version = MPI.get_vendor()
    return name == "Open MPI" and version[0] >= 5


def survives_losses() -> bool:
    """Open MPI means it if it was started so."""
    return has_ulfm() and os.environ.get(SWITCH, "0").lower() in ("1", "true")


class Communicators(Transport):
    """Made of ``base``, all that are left; ``comm`` is for rows, ``control`` for what ends a job.

    ``spare`` is for rows after an interruption, when the first may hold what nobody reads.
    """

    left: Any = MPI.COMM_WORLD  # of this and of later jobs of the process

    def __init__(self):
        self.host = MPI.Get_processor_name()
        self.base = self.comm = self.control = self.spare = Communicators.left
        self.rank, self.num_ranks = self.base.rank, self.base.size
        self._first, self._hosts = self.base.group, {}
        self.origins, self.lost = range(self.num_ranks), []
        self._given_up: list[Any] = []  # what MPI may still read from, or write into
        self._others: list[dict[str, Any]] = []  # what each rank says of itself
        self._is_recovering = self._is_settled = False

    @abstractmethod
    def _talking(self) -> AbstractContextManager[None]:
        """Around calls of MPI: what fails there because of a lost rank comes to ``_miss``."""

    def _connect(self) -> None:
        """All that are left get communicators, and know of each other."""
        self.rank, self.num_ranks, self._is_settled = self.base.rank, self.base.size, False
        self.origins = MPI.Group.Translate_ranks(self.base.group, None, self._first)
        with self._talking():
            self.comm, self.control, self.spare = (self.base.Dup() for _ in range(3))
            for comm in (self.base, self.comm, self.control, self.spare):
                comm.Set_errhandler(MPI.ERRORS_RETURN)  # which mpi4py makes an exception of
            self._others = self.share(
                {"host": self.host, "cores": cores(), "is_stopping": self.is_stopping}
            )
        self.is_stopping = any(other["is_stopping"] for other in self._others)
        self._hosts.update(
            {
                origin: other["host"]
                for origin, other in zip(self.origins, self._others, strict=True)
            }
        )

    def arrange(self, grid: tuple[int, int]) -> None:
        with self._talking():
            plain, self.comm = (
                self.comm,
                self.comm.Create_cart(grid, periods=[True, True], reorder=False),
            )
            plain.Free()

    def _miss(self, error: MPI.Exception) -> NoReturn:
        """An operation has failed. If that is because of a lost rank, all are to know."""
        if not (survives_losses() and self._is_loss(error)):
            raise error
        self._revoke()

    def _revoke(self) -> NoReturn:
        for comm in (self.base, self.comm, self.control, self.spare):
            comm.Revoke()
        raise RanksLost("ranks were lost") from None

    def _is_loss(self, error: MPI.Exception) -> bool:
        """Whether it says so, or else is followed by the news; an error in one of several requests is not named."""
        if error.Get_error_class() in (
            MPI.ERR_PROC_FAILED,
            MPI.ERR_PROC_FAILED_PENDING,
            MPI.ERR_REVOKED,
        ):
            return True
        end = time.monotonic() + DOUBT
        while time.monotonic() < end:
            MPI.COMM_SELF.Iprobe()  # lets the library work
            if self.base.Is_revoked() or self.base.Get_failed().size > 0:
                return True
            time.sleep(PAUSE)
        return False

    def _reconnect(self) -> None:
        """Without those that are lost, also while this goes on."""
        while True:
            if not self._is_settled:
                self._settle(0)
            self._given_up += [self.base, self.comm, self.control, self.spare]
            Communicators.left = self.base = self.base.Shrink()
            try:
                self._connect()
                break
            except RanksLost:
                continue
        missing = (
            set(range(self._first.size)) - set(self.origins) - {lost.rank for lost in self.lost}
        )
        news = [
            Lost(rank, self._hosts.get(rank, "a host that was not heard"))
            for rank in sorted(missing)
        ]
        self.lost = [*self.lost, *news]

    def _settle(self, bits: int) -> int:
        """The bits that all ranks have set which are left; what one of them learns, all do.

        Each rank says what it has to once before it leaves these communicators, be it for others or for good.
        """
        self._is_settled = True
        while True:
            flag = np.array([bits], dtype=np.int32)
            try:
                request = self.base.Iagree(flag)
                while not request.Test():
                    time.sleep(PAUSE)
                return int(flag[0])
            except MPI.Exception as error:
                if not self._is_loss(error):
                    raise
                self.base.Ack_failed()


def cores() -> list[int]:
    """That this process may use."""
    return (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )
