"""Send and receive messages without waiting, and without stopping at lost ranks.

A race uses these messages. They have their own MPI communicator, ``side``, because some of them
may still be on their way when the ranks continue with other messages.
"""

import time
from math import inf
from typing import Any, NamedTuple

import torch
from mpi4py import MPI
from torch import Tensor

from remuda.engines.communicator import Posted
from remuda.engines.mpi.recovery import RecoveringCommunicator, survives_failures

GRACE = 0.5  # seconds for which a rank waits for the end of a race that others have left


class Arriving(NamedTuple):
    """A message that MPI is receiving."""

    request: Any
    message: Posted


class Leaving(NamedTuple):
    """A message that MPI is sending."""

    request: Any
    target: int
    buffer: Tensor  # MPI still reads it


class PostingCommunicator(RecoveringCommunicator):
    """A communicator with messages that nobody waits for."""

    def __init__(self) -> None:
        super().__init__()
        self._posted: list[Leaving] = []
        self._arriving: list[Arriving] = []  # in order
        self._revoked_at = inf  # when this rank noticed that others recover from a failure

    def post(self, target: int, buffer: Tensor, tag: int) -> None:
        with self._talking():
            try:
                request = self.side.Isend([buffer.numpy(), MPI.BYTE], target, tag)
                self._posted.append(Leaving(request, target, buffer))
            except MPI.Exception as error:
                self._tolerate(error)
            self._posted = [each for each in self._posted if not self._is_over(each.request)]

    def num_unsent(self, target: int) -> int:
        return sum(each.target == target for each in self._posted)

    def poll(self) -> Posted | None:
        with self._talking():
            for step in (self._accept, self._obey):
                try:
                    step()
                except MPI.Exception as error:
                    self._tolerate(error)
            self._posted = [each for each in self._posted if not self._is_over(each.request)]
            return self._next_message()

    def _next_message(self) -> Posted | None:
        """Return the first complete message that no earlier one of the same rank precedes."""
        late: set[int] = set()
        for place, (request, message) in enumerate(self._arriving):
            source = message.source
            if source not in late and self._is_over(request):
                del self._arriving[place]
                return None if source in self.absent else message
            late.add(source)
        return None

    def _accept(self) -> None:
        """Start to receive every message that has been announced."""
        status = MPI.Status()
        while (found := self.side.Improbe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)) is not None:
            buffer = torch.empty(status.Get_count(MPI.BYTE), dtype=torch.uint8)
            message = Posted(status.Get_source(), status.Get_tag(), buffer)
            request = found.Irecv([buffer.numpy(), MPI.BYTE])
            self._arriving.append(Arriving(request, message))

    def _is_over(self, request: MPI.Request) -> bool:
        try:
            return bool(request.Test())
        except MPI.Exception as error:  # its rank is lost
            self._tolerate(error)
            return True

    def _tolerate(self, error: MPI.Exception) -> None:
        """Note the lost ranks that caused an error. Raise RanksLost if rank 0 is one of them."""
        if not (survives_failures() and self._is_failure(error)):
            raise error
        if error.Get_error_class() == MPI.ERR_REVOKED:
            # Other ranks have left the race. The message that ends it may still be on its way.
            self._revoked_at = min(self._revoked_at, time.monotonic())
            if time.monotonic() > self._revoked_at + GRACE:
                self._handle(error)
            return
        for comm in (self.side, self.control):
            comm.Ack_failed()
        failed = self.side.Get_failed()
        self.absent = frozenset(MPI.Group.Translate_ranks(failed, None, self.side.group))
        if 0 in self.absent:
            self._handle(error)

    def _connect(self) -> None:
        super()._connect()
        self._given_up += self._posted
        self._posted, self.absent, self._revoked_at = [], frozenset(), inf
        self.num_races = 0  # a failure may have come before some ranks began a race
        self._arriving.clear()
