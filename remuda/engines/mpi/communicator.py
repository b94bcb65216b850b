"""The ranks of an MPI job: bytes between them, waiting without heat, and stopping together.

This file and communicators.py alone import mpi4py, and are imported only where ranks are asked for.

A rank that ends, because of what the user can put right or because the user stops it, tells the others, which hear it
wherever they wait. So all end with one sentence, at rank 0, and one exit status. Any other exception ends the whole job
at once, as under ``python -m mpi4py``.
"""

import atexit
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
from mpi4py import MPI
from torch import Tensor

from remuda.engines.mpi.recovery import OVER, WHOLE, Communicators, cores, survives_losses
from remuda.errors import (
    Interrupted,
    RanksLost,
    ReportedElsewhere,
    UserError,
    exit_status,
    explain,
    is_user_error,
)
from remuda.system.signals import STOP_SIGNALS

CHUNK = 1 << 30  # bytes in a message; MPI counts with 31 bits
SPIN = 1e-3  # seconds for which a wait only offers its core to others
NAP = (
    5e-5,
    2e-3,
)  # shortest and longest sleep in a wait; in between, a tenth of the time waited so far


class Job(Communicators):
    """All ranks of the job, as one of them sees it; a context in which they train together."""

    def __init__(self):
        super().__init__()
        self._unsent: list[tuple[MPI.Request, Tensor]] = []  # MPI reads from these buffers still
        self._is_talking = self._was_signalled = self._was_told = self._is_concluded = False
        self._is_whole = True
        self._handlers: dict[int, Any] = {}

    def __enter__(self):
        sys.excepthook = _abort
        if threading.current_thread() is threading.main_thread():
            self._handlers = {
                number: signal.signal(number, self._on_signal) for number in STOP_SIGNALS
            }
        try:
            self._connect()
        except RanksLost:
            self.recover()
        here = [other for other in self._others if other["host"] == self.host]
        self.local_rank = sum(other["host"] == self.host for other in self._others[: self.rank])
        self.num_sharing = sum(not set(cores()).isdisjoint(other["cores"]) for other in here)
        return self

    # Messages

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
            self._finish(receiving)
            self._unsent = [
                (request, buffer) for request, buffer in self._unsent if not request.Test()
            ]

    def upcoming(self, source: int) -> tuple[int, int]:
        message = MPI.Status()
        with self._talking():
            self._wait(lambda: self.comm.Iprobe(source, MPI.ANY_TAG, message))
        return message.Get_tag(), message.Get_count(MPI.BYTE)

    def add(self, numbers: Tensor) -> None:
        with self._talking():
            self._finish([self.comm.Iallreduce(MPI.IN_PLACE, numbers.numpy(), MPI.SUM)])

    def agree(self, number: int) -> int:
        numbers = np.array([number], dtype=np.int64)
        with self._talking():
            self._finish([self.comm.Iallreduce(MPI.IN_PLACE, numbers, MPI.MAX)])
        return int(numbers[0])

    def share(self, facts: Any) -> list[Any]:
        text = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
        lengths = np.empty(self.num_ranks, dtype=np.int64)
        with self._talking():
            self._finish([self.comm.Iallgather(np.array([len(text)], dtype=np.int64), lengths)])
            texts = np.empty(lengths.sum(), dtype=np.uint8)
            self._finish([self.comm.Iallgatherv(text, [texts, lengths.tolist()])])
        ends = lengths.cumsum()
        return [
            json.loads(texts[end - length : end].tobytes())
            for end, length in zip(ends, lengths, strict=True)
        ]

    # Waiting

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Signals wait for a moment at which no request can get lost."""
        within, self._is_talking = self._is_talking, True
        try:
            yield
        except MPI.Exception as error:
            self._miss(error)
        finally:
            self._is_talking = within
        if not within:
            self._heed_signals()

    def _finish(self, requests: list[MPI.Request]) -> None:
        try:
            self._wait(lambda: MPI.Request.Testall(requests))
        except BaseException:
            self._given_up += requests
            raise

    def _wait(self, is_over: Callable[[], bool]) -> None:
        """With more ranks than cores, who waits must not keep a core from those that it waits for."""
        began = time.perf_counter()
        while not is_over():
            waited = time.perf_counter() - began
            if waited < SPIN:
                os.sched_yield()
            else:
                self._heed()
                time.sleep(min(max(waited / 10, NAP[0]), NAP[1]))

    def _heed(self) -> None:
        """Raise what a signal or another rank asks for."""
        self._heed_signals()
        message = MPI.Status()
        while self.control.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, message):
            text = np.empty(message.Get_count(MPI.BYTE), dtype=np.uint8)
            self.control.Recv(text, message.Get_source(), message.Get_tag())
            told = json.loads(text.tobytes())
            if told is not None:
                self._was_told = True
                raise (Interrupted if told["status"] == 130 else UserError)(told["sentence"])
            self._was_signalled = True
            self._heed_signals()

    def _heed_signals(self) -> None:
        if self._was_signalled and not (self.is_stopping or self._is_recovering):
            raise KeyboardInterrupt

    # Ending

    def recover(self) -> None:
        """Signals wait; if one has come to any rank, all hear of it."""
        self._is_talking = self._is_recovering = True
        self.is_stopping = self.is_stopping or self._was_signalled
        self._given_up += self._unsent
        self._unsent = []
        try:
            self._reconnect()
        finally:
            self._is_talking = self._is_recovering = False
            self._was_signalled = self._was_signalled or self.is_stopping

    def conclude(self) -> None:
        with self._talking():
            self._finish([self.comm.Ibarrier()])
            if not self.is_stopping:  # otherwise what was under way is never received
                self._finish([request for request, _ in self._unsent])
            if survives_losses():
                settled = self._settle(
                    OVER if self.lost or self.base.Get_failed().size else OVER | WHOLE
                )
                if not settled & OVER:
                    self._revoke()
                self._is_whole = bool(settled & WHOLE)
        self._unsent.clear()
        self._is_concluded = True

    def _on_signal(self, *_: object) -> None:
        """Once: what follows, as from a time limit that signals twice, would cut off what the first one saves."""
        if self._was_signalled:
            return
        self._was_signalled = True
        if not (self._is_talking or self.is_stopping):
            raise KeyboardInterrupt

    def halt(self) -> None:
        self.is_stopping = self._was_signalled = True
        self._tell(None)
        self.comm = self.spare

    def _tell(self, news: dict[str, Any] | None) -> None:
        """All other ranks, what ends the job; None: only that it was interrupted."""
        text = torch.frombuffer(bytearray(json.dumps(news).encode()), dtype=torch.uint8)
        for other in range(self.num_ranks):
            if other != self.rank:
                with suppress(MPI.Exception):  # a rank that is lost will be missed
                    self._unsent.append((self.control.Isend(_raw(text), other), text))

    def __exit__(self, *exception: Any) -> None:
        error = exception[1]
        try:
            if error is None and not self._is_concluded:
                self.conclude()
        except BaseException as late:
            if not is_user_error(late):
                raise
            error = late
        self._restore_handlers()
        if error is not None and not is_user_error(error):
            return
        if error is None and self._is_whole:
            for comm in (self.comm, self.control, self.spare):
                comm.Free()
            return
        atexit.register(self._leave, 0 if error is None else exit_status(error))
        if error is None:
            return
        if not (self._was_told or isinstance(error, Interrupted)):
            place = f" (rank {self.origin} on {self.host})" if self.rank else ""
            self._tell({"sentence": explain(error) + place, "status": exit_status(error)})
        if self.rank > 0:
            raise ReportedElsewhere(explain(error), exit_status(error)) from error
        if error is not exception[1]:
            raise error

    def _leave(self, exit_status: int) -> None:
        """In good order, for otherwise the launcher would complain. The job's exit status is rank 0's.

        The launcher returns when the first rank ends with another status than 0: that one has to have spoken by then,
        and the rest to be gone. Finalize might wait for ranks that are lost.
        """
        if survives_losses():
            self._settle(OVER)
        elif not MPI.Is_finalized():
            MPI.Finalize()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0 if self.rank > 0 else exit_status)

    def _restore_handlers(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}


def _raw(buffer: Tensor) -> Any:
    return [buffer.numpy() if buffer.device.type == "cpu" else buffer, MPI.BYTE]


def _abort(*exception: Any) -> None:
    sys.__excepthook__(*exception)
    sys.stderr.flush()
    MPI.COMM_WORLD.Abort(1)
