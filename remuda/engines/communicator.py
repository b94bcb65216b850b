"""Connect the processes that train one population together."""

import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from remuda.system.signals import StopSignals

COLLECT = 0  # tag of the messages of collect, report and broadcast


class LostRank(NamedTuple):
    """A rank that failed."""

    rank: int  # its number at the start of the job
    host: str


class Posted(NamedTuple):
    """A message that a rank has posted."""

    source: int
    tag: int
    buffer: Tensor  # bytes


class Communicator(ABC):
    """The ranks of a job, and the messages between them.

    Every process runs the same loop on its own members, and saves them. Only rank 0 writes the rest
    of the record and talks to the user. A communicator is a context manager: enter it before you
    use it. Inside its ``with`` block, it handles the signals that stop a run.

    Messages between ranks are contiguous tensors of bytes in host memory, or in device memory
    where the MPI library supports that. Sending returns immediately, so the sender must not
    change a buffer that it has sent.
    """

    rank: int  # of this process
    num_ranks: int
    host: str
    local_rank: int  # position of this rank among the ranks on its host
    num_sharing: int  # ranks that share CPU cores with this one, itself included
    signals: StopSignals
    is_stopping: bool  # whether the user has interrupted the run
    waited: float  # seconds that this process has waited for messages so far
    original_ranks: Sequence[int]  # numbers that the remaining ranks had at the start
    num_races: int = 0  # so far; the same on all ranks
    absent: frozenset[int]  # ranks that are known to be lost, until ``recover``
    lost: Sequence[LostRank]  # in the order in which their failures were noticed

    @property
    def is_root(self) -> bool:
        """Whether this process writes the record and talks to the user."""
        return self.rank == 0

    @property
    def original_rank(self) -> int:
        """The number of this rank at the start of the job."""
        return self.original_ranks[self.rank]

    @abstractmethod
    def all_gather(self, facts: Any) -> list[Any]:
        """Return the facts of all ranks, sorted by rank. Facts must be JSON values."""

    @abstractmethod
    def max_over_ranks(self, number: int) -> int:
        """Return the largest number over all ranks; wait until every rank has called this."""

    @contextmanager
    def root_first(self) -> Iterator[None]:
        """Let rank 0 run a block first, for example to download a file that all ranks read."""
        if not self.is_root:
            self.max_over_ranks(0)
        yield
        if self.is_root:
            self.max_over_ranks(0)

    def check_signals(self) -> None:
        """Raise KeyboardInterrupt if the user wants to stop the run, unless it is stopping."""
        if self.signals.is_requested and not self.is_stopping:
            raise KeyboardInterrupt

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a stop signal end this block at once, with KeyboardInterrupt.

        The block may compute for a long time, but must change nothing that lasts longer than it.
        """
        self.signals.is_interruptible = True
        try:
            self.check_signals()  # it may have come before the block
            yield
        finally:
            self.signals.is_interruptible = False
        self.check_signals()  # Python may have ignored the exception

    @abstractmethod
    def interrupt(self) -> None:
        """Tell the other ranks that the user stopped the run, and abandon pending messages."""

    @abstractmethod
    def recover(self) -> None:
        """Reconnect the remaining ranks, all of which have raised RanksLost.

        They become ranks 0, 1, ... in their old order.
        """

    @abstractmethod
    def finish(self) -> None:
        """Wait until all ranks are done. If a rank fails meanwhile, the others raise RanksLost."""

    @abstractmethod
    def arrange(self, grid: tuple[int, int]) -> None:
        """Place the ranks on a torus."""

    @abstractmethod
    def exchange(
        self, outgoing: Mapping[int, Tensor], incoming: Mapping[int, Tensor], tag: int
    ) -> None:
        """Send each outgoing buffer to its rank, and fill each incoming buffer from its rank."""

    @abstractmethod
    def flush(self) -> None:
        """Wait until all messages of this process have been sent."""

    @abstractmethod
    def upcoming(self, source: int) -> tuple[int, int]:
        """Wait for the next message from a rank; return its tag and its number of bytes."""

    @abstractmethod
    def post(self, target: int, buffer: Tensor, tag: int) -> None:
        """Send bytes in host memory without waiting. Messages to lost ranks vanish."""

    @abstractmethod
    def num_unsent(self, target: int) -> int:
        """Return how many messages that were posted to a rank are still in this process."""

    @abstractmethod
    def poll(self) -> Posted | None:
        """Return a message that has arrived, or None. Those from one rank keep their order.

        This never waits. Lost ranks become ``absent``; only the loss of rank 0 raises RanksLost.
        """

    @abstractmethod
    def rest(self, seconds: float) -> None:
        """Yield the core for a moment, after ``seconds`` without news."""

    @abstractmethod
    def add(self, parts: Iterable[Tensor]) -> None:
        """Replace floating-point numbers in host memory by their sums over all ranks.

        Each part travels while the iterator makes the next one.
        """

    def collect(self, rows: Tensor, ranks: Tensor) -> Tensor:
        """Return the rows of all ranks on rank 0; other ranks return their own rows.

        ``ranks`` (n,) holds, for each of all n rows, the rank that has it. Every rank passes its
        own rows, in the same order and in host memory.
        """
        if not self.is_root:
            self.exchange({0: _bytes(rows)} if len(rows) else {}, {}, COLLECT)
            return rows
        whole = rows.new_empty(len(ranks), *rows.shape[1:])
        whole[ranks == 0] = rows
        others = [rank for rank in torch.unique(ranks).tolist() if rank != 0]
        parts = {rank: whole[ranks == rank] for rank in others}
        self.exchange({}, {rank: _bytes(part) for rank, part in parts.items()}, COLLECT)
        for rank, part in parts.items():
            whole[ranks == rank] = part
        return whole

    def report(self, message: Tensor) -> list[Tensor]:
        """Send bytes to rank 0, which returns the messages of all ranks, sorted by rank.

        Other ranks return only their own message.
        """
        sizes = self.all_gather(len(message))
        if not self.is_root:
            self.exchange({0: message}, {}, COLLECT)
            return [message]
        found = {
            rank: torch.empty(size, dtype=torch.uint8)
            for rank, size in enumerate(sizes)
            if rank != self.rank
        }
        self.exchange({}, found, COLLECT)
        return [message, *found.values()]

    def broadcast(self, message: Tensor) -> Tensor:
        """Return the bytes of rank 0 on all ranks. The messages of other ranks do not count."""
        size = self.all_gather(len(message))[0]
        if self.is_root:
            self.exchange(dict.fromkeys(range(1, self.num_ranks), message), {}, COLLECT)
            return message
        buffer = torch.empty(size, dtype=torch.uint8)
        self.exchange({}, {0: buffer}, COLLECT)
        return buffer

    def ask(self, name: str, facts: Any) -> None:
        """Send a request from rank 0 to the other ranks, which call ``serve``."""
        self.all_gather([name, facts])

    def dismiss(self) -> None:
        """Tell the ranks that call ``serve`` that rank 0 has no more requests."""
        self.all_gather(None)

    def serve(self, answers: Mapping[str, Callable[[Any], None]]) -> None:
        """Answer the requests of rank 0, until it dismisses this rank."""
        while (request := self.all_gather(None)[0]) is not None:
            name, facts = request
            answers[name](facts)

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(self, *exception: Any) -> None: ...


def _bytes(rows: Tensor) -> Tensor:
    """View contiguous rows as bytes."""
    return rows.contiguous().flatten().view(torch.uint8)


class SingleProcess(Communicator):
    """A single process, which trains the whole population and needs no messages."""

    def __init__(self) -> None:
        self.rank, self.num_ranks = 0, 1
        self.host = platform.node()
        self.local_rank, self.num_sharing = 0, 1
        self.signals, self.is_stopping, self.waited = StopSignals(), False, 0.0
        self.original_ranks, self.absent = (0,), frozenset()
        self.lost = ()

    def __enter__(self) -> Self:
        self.signals.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        StopSignals.was_obeyed = self.is_stopping
        self.signals.__exit__()
        if exception[1] is None and self.signals.is_requested:  # after the last round
            self.signals.pass_on()

    def all_gather(self, facts: Any) -> list[Any]:
        return [facts]

    def max_over_ranks(self, number: int) -> int:
        return number

    def interrupt(self) -> None:
        self.is_stopping = True

    def recover(self) -> None:
        return None

    def finish(self) -> None:
        return None

    def arrange(self, grid: tuple[int, int]) -> None:
        return None

    def exchange(
        self, outgoing: Mapping[int, Tensor], incoming: Mapping[int, Tensor], tag: int
    ) -> None:
        assert not outgoing and not incoming, "there are no other ranks"

    def flush(self) -> None:
        return None

    def upcoming(self, source: int) -> tuple[int, int]:
        raise AssertionError("no message can arrive: there are no other ranks")

    def post(self, target: int, buffer: Tensor, tag: int) -> None:
        raise AssertionError("there are no other ranks")

    def num_unsent(self, target: int) -> int:
        return 0

    def poll(self) -> Posted | None:
        return None

    def rest(self, seconds: float) -> None:
        return None

    def add(self, parts: Iterable[Tensor]) -> None:
        for _ in parts:  # the sums over one rank are the parts themselves
            pass
