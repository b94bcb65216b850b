"""The ranks of an MPI job: bytes between them, waiting without heat, and stopping together.

The only file that imports mpi4py, and imported only where ranks are asked for.

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
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from mpi4py import MPI
from torch import Tensor

from remuda.engines.world import Transport
from remuda.errors import ENDINGS, Interrupted, SaidElsewhere, UserError, sentence, status

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)  # the last is what mpirun passes on
CHUNK = 1 << 30  # bytes in a message; MPI counts with 31 bits
SPIN = 1e-3  # seconds for which a wait only offers its core to others
NAP = 5e-5, 2e-3  # shortest and longest sleep in a wait; in between, a tenth of the time waited so far


class Job(Transport):
    """All ranks of the job, as one of them sees it; a context in which they train together."""

    def __init__(self):
        self.rank, self.num_ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
        self.host = MPI.Get_processor_name()
        self._unsent: list[tuple[MPI.Request, Tensor]] = []  # MPI reads from these buffers still
        self._given_up: list[MPI.Request] = []  # and may write into those that these hold
        self._is_talking = self._is_stopping = self._was_signalled = self._was_told = False
        self._handlers: dict[int, Any] = {}

    def __enter__(self):
        # For rows; for what ends a job; and for rows after an interruption, when the first may hold what nobody reads.
        self.comm, self.control, self.spare = (MPI.COMM_WORLD.Dup() for _ in range(3))
        sys.excepthook = _abort
        self._is_stopping = self._was_signalled = self._was_told = False
        if threading.current_thread() is threading.main_thread():
            self._handlers = {number: signal.signal(number, self._on_signal) for number in STOPS}
        cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
        others = self.share({"host": self.host, "cores": sorted(cores)})
        here = [other for other in others if other["host"] == self.host]
        self.local_rank = sum(other["host"] == self.host for other in others[: self.rank])
        self.num_sharing = sum(not set(cores).isdisjoint(other["cores"]) for other in here)
        return self

    def arrange(self, grid: tuple[int, int]) -> None:
        plain, self.comm = self.comm, self.comm.Create_cart(grid, periods=[True, True], reorder=False)
        plain.Free()

    # Messages

    def exchange(self, outgoing: Mapping[int, Tensor], incoming: Mapping[int, Tensor], tag: int) -> None:
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
            self._unsent = [(request, buffer) for request, buffer in self._unsent if not request.Test()]

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
        return [json.loads(texts[end - length : end].tobytes()) for end, length in zip(ends, lengths, strict=True)]

    # Waiting

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Signals wait for a moment at which no request can get lost."""
        self._is_talking = True
        try:
            yield
        finally:
            self._is_talking = False
        if self._was_signalled and not self._is_stopping:
            raise KeyboardInterrupt

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
        if self._was_signalled and not self._is_stopping:
            raise KeyboardInterrupt
        message = MPI.Status()
        while self.control.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, message):
            text = np.empty(message.Get_count(MPI.BYTE), dtype=np.uint8)
            self.control.Recv(text, message.Get_source(), message.Get_tag())
            told = json.loads(text.tobytes())
            if told is not None:
                self._was_told = True
                raise (Interrupted if told["status"] == 130 else UserError)(told["sentence"])
            if not self._is_stopping:
                self._was_signalled = True
                raise KeyboardInterrupt

    # Stopping

    def _on_signal(self, *_: object) -> None:
        """Once: what follows, as from a time limit that signals twice, would cut off what the first one saves."""
        if self._was_signalled:
            return
        self._was_signalled = True
        if not (self._is_talking or self._is_stopping):
            raise KeyboardInterrupt

    def halt(self) -> None:
        self._is_stopping = self._was_signalled = True
        self._tell(None)
        self.comm = self.spare

    def _tell(self, news: dict[str, Any] | None) -> None:
        """All other ranks, what ends the job; None: only that it was interrupted."""
        text = torch.frombuffer(bytearray(json.dumps(news).encode()), dtype=torch.uint8)
        for other in range(self.num_ranks):
            if other != self.rank:
                self._unsent.append((self.control.Isend(_raw(text), other), text))

    def __exit__(self, *exception: Any) -> None:
        error = exception[1]
        try:
            if error is None or (isinstance(error, Interrupted) and not self._was_told):
                self._close()
        except ENDINGS as late:
            error = late
        self._restore_handlers()
        if error is None or not isinstance(error, ENDINGS):
            return
        atexit.register(_leave, self.rank, status(error))
        if not (self._was_told or isinstance(error, Interrupted)):
            place = f" (rank {self.rank} on {self.host})" if self.rank else ""
            self._tell({"sentence": sentence(error) + place, "status": status(error)})
        if self.rank > 0:
            raise SaidElsewhere(sentence(error), status(error)) from error
        if error is not exception[1]:
            raise error

    def _close(self) -> None:
        """Nobody leaves before all have come to an end."""
        with self._talking():
            self._finish([self.comm.Ibarrier()])
            if self._is_stopping:  # what was under way is never received
                return
            self._finish([request for request, _ in self._unsent])
        self._unsent.clear()
        for comm in (self.comm, self.control, self.spare):
            comm.Free()

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


def _leave(rank: int, exit_status: int) -> None:
    """All ranks end with one status, so none has to end the others: otherwise the launcher would complain.

    The launcher returns when the first has ended; that should be rank 0, so the others make haste.
    """
    if not MPI.Is_finalized():
        MPI.Finalize()
    if rank > 0:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_status)
