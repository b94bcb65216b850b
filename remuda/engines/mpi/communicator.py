"""Connect the ranks of an MPI job: exchange messages, wait without using a core, stop together.

Only runs under MPI import this module, because mpi4py may be missing elsewhere.

A rank that ends because of a user error, or because the user stops it, tells the other ranks. They
receive this message while they wait, and end too. Rank 0 prints one error message, and the job has
one exit status. Any other exception aborts the whole job, as ``python -m mpi4py`` does.
"""

import atexit
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Self

import numpy as np
import torch
from mpi4py import MPI
from torch import Tensor

from remuda.engines.mpi.posting import PostingCommunicator
from remuda.engines.mpi.recovery import OVER, WHOLE, survives_failures
from remuda.errors import (
    Interrupted,
    RanksLost,
    ReportedElsewhere,
    StoppedByFailure,
    exit_status,
    explain,
    is_user_error,
    with_status,
)
from remuda.system import parts

CHUNK = 1 << 30  # largest message in bytes; MPI counts bytes with 31 bits
SPIN = 1e-3  # seconds for which a wait yields its core before it starts to sleep
SHORTEST, LONGEST = 5e-5, 2e-3  # limits in seconds for a sleep, which is 10 % of the wait so far


class MPICommunicator(PostingCommunicator):
    """The connection of this process to all ranks of an MPI job.

    Inside its ``with`` block, the signals that stop a run are handled, and an uncaught exception
    aborts the job.
    """

    def __init__(self) -> None:
        super().__init__()
        self._unsent: list[tuple[MPI.Request, Tensor]] = []  # MPI still reads these buffers
        self._was_told = self._is_finishing = self._is_finished = False
        self._is_whole = True  # no rank was lost
        self._excepthook = sys.excepthook

    def __enter__(self) -> Self:
        sys.excepthook = _abort
        self.signals.__enter__()
        try:
            self._connect()
        except RanksLost:
            try:
                self.recover()
            except StoppedByFailure as error:
                self.__exit__(type(error), error, None)
                raise
        self._find_neighbours()
        return self

    # Messages between ranks

    def exchange(
        self, outgoing: Mapping[int, Tensor], incoming: Mapping[int, Tensor], tag: int
    ) -> None:
        with self._talking():
            receiving = [
                self.comm.Irecv(_raw(piece), source, tag)
                for source, buffer in incoming.items()
                for piece in buffer.split(CHUNK)
            ]
            for target, buffer in outgoing.items():
                for piece in buffer.split(CHUNK):
                    self._unsent.append((self.comm.Isend(_raw(piece), target, tag), piece))
            self._wait_for(receiving)
            self._unsent = [pending for pending in self._unsent if not pending[0].Test()]

    def flush(self) -> None:
        with self._talking():
            self._wait_for([request for request, _ in self._unsent])
            self._unsent = []

    def upcoming(self, source: int) -> tuple[int, int]:
        message = MPI.Status()
        with self._talking():
            self._wait(lambda: self.comm.Iprobe(source, MPI.ANY_TAG, message))
        return message.Get_tag(), message.Get_count(MPI.BYTE)

    def add(self, parts: Iterable[Tensor]) -> None:
        with self._talking():
            self._wait_for(
                self.comm.Iallreduce(MPI.IN_PLACE, part.numpy(), MPI.SUM) for part in parts
            )

    def max_over_ranks(self, number: int) -> int:
        numbers = np.array([number], dtype=np.int64)
        with self._talking():
            self._wait_for([self.comm.Iallreduce(MPI.IN_PLACE, numbers, MPI.MAX)])
        return int(numbers[0])

    def all_gather(self, facts: Any) -> list[Any]:
        text = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
        length = np.array([len(text)], dtype=np.int64)
        lengths = np.empty(self.num_ranks, dtype=np.int64)
        with self._talking():
            self._wait_for([self.comm.Iallgather(length, lengths)])
            texts = np.empty(lengths.sum(), dtype=np.uint8)
            self._wait_for([self.comm.Iallgatherv(text, [texts, lengths.tolist()])])
        ends = lengths.cumsum().tolist()
        starts = [0, *ends[:-1]]
        return [json.loads(texts[a:b].tobytes()) for a, b in zip(starts, ends, strict=True)]

    # Waiting for other ranks

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Delay signals until no MPI call is in progress."""
        with self.signals.delayed():
            try:
                yield
            except MPI.Exception as error:
                self._handle(error)
        if self.signals.is_interruptible:
            self.check_signals()

    def _wait_for(self, requests: Iterable[MPI.Request]) -> None:
        started: list[MPI.Request] = []
        try:
            for request in requests:
                started.append(request)
            self._wait(lambda: MPI.Request.Testall(started))
        except BaseException:
            self._given_up += started
            raise

    def rest(self, seconds: float) -> None:
        if seconds < SPIN:
            os.sched_yield()
        else:
            time.sleep(min(max(seconds / 10, SHORTEST), LONGEST))

    def _wait(self, is_over: Callable[[], bool]) -> None:
        """Wait, but yield the core, because the host may run more ranks than it has cores."""
        start = time.perf_counter()
        try:
            while not is_over():
                waited = time.perf_counter() - start
                if waited >= SPIN:
                    self._obey()
                self.rest(waited)
        finally:
            self.waited += time.perf_counter() - start

    def _obey(self) -> None:
        """Raise the exception that a signal or another rank asks for."""
        if not self._is_finishing:
            self.check_signals()
        message = MPI.Status()
        while self.control.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, message):
            text = np.empty(message.Get_count(MPI.BYTE), dtype=np.uint8)
            self.control.Recv(text, message.Get_source(), message.Get_tag())
            news = json.loads(text.tobytes())
            if news is not None:
                self._was_told = True
                raise with_status(news["status"], news["message"])
            self.signals.is_requested = True
            self.check_signals()

    def check_signals(self) -> None:
        if not self._is_recovering:
            super().check_signals()

    # Ending the job together

    def recover(self) -> None:
        """Reconnect the remaining ranks. If one of them received a signal, all of them stop."""
        self._is_recovering = True
        self.is_stopping = self.is_stopping or self.signals.is_requested
        self._given_up += self._unsent
        self._unsent = []
        try:
            self._reconnect()
        finally:
            self._is_recovering = False

    def finish(self) -> None:
        # Other ranks may already be past the barrier, so a signal comes too late for this rank. A
        # rank that has not reached the barrier can still interrupt the others.
        self._is_finishing = True
        try:
            with self._talking():
                self._wait_for([self.comm.Ibarrier()])
                if not self.is_stopping:  # after an interruption no rank receives pending messages
                    self._wait_for([request for request, _ in self._unsent])
                if survives_failures():
                    self._agree_on_end()
        finally:
            self._is_finishing = False
        self._unsent.clear()
        self._is_finished = True

    def _agree_on_end(self) -> None:
        is_reduced = bool(self.lost or self.base.Get_failed().size)
        settled = self._settle(OVER if is_reduced else OVER | WHOLE)
        if not settled & OVER:
            self._revoke()
        self._is_whole = bool(settled & WHOLE)

    def interrupt(self) -> None:
        self.is_stopping = self.signals.is_requested = True
        self._tell(None)
        self._given_up += self._unsent  # flush would wait forever: no rank receives them
        self._unsent = []
        self.comm = self.spare

    def _tell(self, news: dict[str, Any] | None) -> None:
        """Tell all other ranks what ends the job; None means an interruption."""
        text = torch.frombuffer(bytearray(json.dumps(news).encode()), dtype=torch.uint8)
        for other in range(self.num_ranks):
            if other != self.rank:
                with suppress(MPI.Exception):  # another call will notice a lost rank
                    self._unsent.append((self.control.Isend(_raw(text), other), text))

    def __exit__(self, *exception: Any) -> None:
        error = exception[1]
        try:
            if error is None and not self._is_finished:
                self.finish()
        except BaseException as late:
            if not is_user_error(late):
                raise
            error = late
        self.signals.__exit__()
        if error is not None:
            error = parts.blamed(error)
        if error is not None and not is_user_error(error):
            return  # keep our exception hook, which aborts the other ranks
        sys.excepthook = self._excepthook
        # MPI_Finalize could wait for lost ranks.
        if error is None and self._is_whole and not survives_failures():
            for comm in (self.comm, self.control, self.spare, self.side):
                comm.Free()
            return
        atexit.register(self._leave, 0 if error is None else exit_status(error))
        if error is None:
            return
        if not (self._was_told or isinstance(error, Interrupted)):
            place = f" (rank {self.original_rank} on {self.host})" if self.rank else ""
            self._tell({"message": explain(error) + place, "status": exit_status(error)})
        if self.rank != self._speaker:
            raise ReportedElsewhere(explain(error), exit_status(error)) from error
        if error is not exception[1]:
            raise error from exception[1]

    def _leave(self, status: int) -> None:
        """Leave the job cleanly. The exit status of the job is that of rank 0.

        The launcher returns when the first rank exits with a status other than 0. Before that,
        rank 0 must print its message, and the other ranks must end. Jobs that survive failures do
        not call MPI_Finalize, which could wait for lost ranks.
        """
        if survives_failures():
            if self._speaker == 0:  # otherwise all end because rank 0 is lost
                self._settle(OVER)
        elif not MPI.Is_finalized():
            MPI.Finalize()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if self.rank == self._speaker else 0)


def _raw(buffer: Tensor) -> Any:
    return [buffer.numpy() if buffer.device.type == "cpu" else buffer, MPI.BYTE]


def _abort(*exception: Any) -> None:
    """Print an uncaught exception, then abort the job."""
    sys.__excepthook__(*exception)
    sys.stderr.flush()
    MPI.COMM_WORLD.Abort(1)
