"""Run members on the ranks of an MPI job.

Verbs send messages of flat bytes, and ``map`` calls the stacked engine. Every rank runs the same
strategy on its own span of members. All ranks therefore call the same verbs in the same order,
with the same tables and weights. A verb sends at most one message from one rank to another. The
server is rank 0.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from remuda.engines.base import Engine
from remuda.engines.communicator import Communicator
from remuda.engines.mpi import packing
from remuda.engines.mpi.bench import Bench
from remuda.engines.mpi.exchanges import BoardRace, HubRace
from remuda.engines.mpi.means import average
from remuda.engines.mpi.races import Place
from remuda.engines.mpi.spans import deliver, spans
from remuda.engines.racing import Board, Hub, Pace, Race, Raced, Turn
from remuda.engines.stacked import Stacked
from remuda.errors import UserError
from remuda.tensors import trees
from remuda.tensors.trees import Tree

# Message tags; Communicator.collect has its own. The tag of a scatter also identifies the
# description of its rows, which the receivers got in an earlier message.
TAKE, GATHER, DESCRIPTION, FIRST_SCATTER = range(1, 5)


class MPIEngine(Engine):
    """The part of the population that this rank hosts.

    ``sent`` counts, for each verb, the bytes that this rank has sent to other ranks. For ``mean``
    it counts the bytes of the numbers that this rank has added to the sum.
    """

    spans_processes: ClassVar[bool] = True

    def __init__(
        self,
        communicator: Communicator,
        size: int,
        device: torch.device | str = "cpu",
        *,
        hosted: Sequence[range] | None = None,  # the members of each rank; None: equal spans
        grid: tuple[int, int] | None = None,  # the members' places on a torus
        cuda_aware: bool = False,  # whether MPI can read messages from a GPU's memory
        **stacked: Any,  # settings of the stacked engine for the members hosted here
    ):
        self.communicator, self.size = communicator, size
        self.spans = list(hosted or spans(size, communicator.num_ranks))
        self.span = self.spans[communicator.rank]
        self.members = self.span
        self.inner = Stacked(len(self.span), device, **stacked)
        self.device = self.inner.device
        self.staged = self.device.type == "cuda" and not cuda_aware
        self.sent: Counter[str] = Counter()
        self._bench = Bench()
        self._first_race = 0  # the number of its first race, the same on all ranks
        self._views: dict[int, tuple[int, Any]] = {}  # the newest posts of neighbours
        self._descriptions: dict[str, int] = {}  # sent or received so far, with their numbers
        if grid is not None and communicator.num_ranks == size > 1:
            communicator.arrange(grid)

    @classmethod
    def join(cls) -> Communicator:
        try:
            from remuda.engines.mpi.communicator import MPICommunicator
        except (ImportError, RuntimeError) as error:
            raise UserError(missing(str(error))) from None
        return MPICommunicator()

    @classmethod
    def build(
        cls, communicator: Communicator, size: int, device: torch.device, **settings: Any
    ) -> Engine:
        """Build the engine from a configuration; a single rank gets a stacked engine."""
        if communicator.num_ranks == 1:
            return Stacked.build(communicator, size, device, **settings)
        return cls(communicator, size, device, **settings)

    def map(self, fn: Callable[..., Tree], *rows: Tree) -> Tree:
        return self.inner.map(fn, *rows)

    def expect(self, rounds: int) -> None:
        self.inner.expect(rounds)
        if rounds == 0:
            self._bench.close()

    @property
    def is_preparing(self) -> bool:
        return self.inner.is_preparing

    def take(self, rows: Tree, source: Tensor) -> Tree:
        rank = self.communicator.rank
        plan, leaves = deliver(source, self.spans, rank), trees.leaves(rows)
        size = packing.row_bytes(leaves)
        incoming = {
            other: self._buffer((part.stop - part.start) * size)
            for other, part in plan.incoming.items()
            if other != rank
        }
        outgoing = {
            other: self._outgoing(packing.pack(leaves, chosen))
            for other, chosen in plan.outgoing.items()
        }
        self._exchange("take", outgoing, incoming, TAKE)
        pool = [leaf.new_empty(len(plan.needed), *leaf.shape[1:]) for leaf in leaves]
        if rank in plan.incoming:
            own = plan.incoming[rank]
            mine = [member - self.span.start for member in plan.needed[own]]
            for target, leaf in zip(pool, leaves, strict=True):
                target[own] = leaf[mine]
        for other, buffer in incoming.items():
            packing.unpack(self._incoming(buffer), pool, plan.incoming[other])
        places = plan.places.to(self.device)
        return trees.refill(rows, [leaf[places] for leaf in pool])

    def mean(self, rows: Tree, weights: Tensor, dtype: torch.dtype = torch.float64) -> Tree:
        leaves = trees.leaves(rows)
        floating = [leaf for leaf in leaves if leaf.is_floating_point()]
        rank, add = self.communicator.rank, self.communicator.add
        means, num_bytes = average(floating, weights, self.spans, rank, dtype, add)
        self.sent["mean"] += num_bytes
        found = iter(means)
        return trees.refill(
            rows, [next(found) if leaf.is_floating_point() else leaf.clone() for leaf in leaves]
        )

    def scatter(self, fn: Callable[..., Tree], *server: Any) -> Tree:
        if not self.communicator.is_root:
            return self._receive_rows()
        return self._send_rows(self.inner.scatter(fn, *server))

    def _send_rows(self, rows: Tree) -> Tree:
        description, leaves = packing.describe(rows), trees.leaves(rows)
        others = range(1, self.communicator.num_ranks)
        if description not in self._descriptions:
            self._descriptions[description] = len(self._descriptions)
            text = torch.frombuffer(bytearray(description.encode()), dtype=torch.uint8)
            self.communicator.exchange(dict.fromkeys(others, text), {}, DESCRIPTION)
        parts = [slice(span.start, span.stop) for span in self.spans]
        outgoing = {other: self._outgoing(packing.pack(leaves, parts[other])) for other in others}
        tag = FIRST_SCATTER + self._descriptions[description]
        self._exchange("scatter", outgoing, {}, tag)
        return trees.map(lambda leaf: leaf[parts[0]].to(self.device), rows)

    def _receive_rows(self) -> Tree:
        while True:
            tag, size = self.communicator.upcoming(0)
            if tag != DESCRIPTION:
                break
            text = torch.empty(size, dtype=torch.uint8)
            self.communicator.exchange({}, {0: text}, DESCRIPTION)
            self._descriptions[text.numpy().tobytes().decode()] = len(self._descriptions)
        assert tag >= FIRST_SCATTER, "ranks call verbs in different orders"
        description = list(self._descriptions)[tag - FIRST_SCATTER]
        rows = packing.build(description, len(self.members), self.device)
        leaves = trees.leaves(rows)
        buffer = self._buffer(len(self.members) * packing.row_bytes(leaves))
        self._exchange("scatter", {}, {0: buffer}, tag)
        packing.unpack(self._incoming(buffer), leaves, slice(None))
        return rows

    def gather(self, fn: Callable[..., Tree], server: Any, *rows: Tree) -> Tree:
        """Send all rows to rank 0, the server; other ranks return the empty tree."""
        leaves = trees.leaves(rows)
        size = packing.row_bytes(leaves)
        if not self.communicator.is_root:
            packed = self._outgoing(packing.pack(leaves, slice(None)))
            self._exchange("gather", {0: packed}, {}, GATHER)
            return ()
        others = range(1, self.communicator.num_ranks)
        incoming = {other: self._buffer(len(self.spans[other]) * size) for other in others}
        self._exchange("gather", {}, incoming, GATHER)
        whole = [leaf.new_empty(self.size, *leaf.shape[1:]) for leaf in leaves]
        for target, leaf in zip(whole, leaves, strict=True):
            target[: len(self.members)] = leaf
        for other, buffer in incoming.items():
            span = self.spans[other]
            packing.unpack(self._incoming(buffer), whole, slice(span.start, span.stop))
        return self.inner.gather(fn, server, *trees.refill(rows, whole))

    def race(self, turn: Turn, exchange: Hub | Board, state: Race, count: int, pace: Pace) -> Raced:
        self.communicator.num_races += 1
        if not self._first_race:
            self._first_race = self.communicator.num_races

        def compute(member: int, number: int, rows: Tree, mail: Tree) -> Any:
            return turn(self.inner.single(member), rows, mail, number)

        place = Place(
            self.communicator, self._bench, self.spans, self._views, self.device, self._first_race
        )
        kind = HubRace if isinstance(exchange, Hub) else BoardRace
        return kind(place, compute, exchange, state, count).run()

    def _exchange(
        self, verb: str, outgoing: dict[int, Tensor], incoming: dict[int, Tensor], tag: int
    ) -> None:
        self.sent[verb] += sum(len(buffer) for buffer in outgoing.values())
        self.communicator.exchange(outgoing, incoming, tag)
        # MPI sends large messages only while a rank calls MPI. If this rank computed now, the
        # receivers would wait for the result as well.
        self.communicator.flush()

    # Copies between the device and the message buffers

    def _buffer(self, num_bytes: int) -> Tensor:
        device = torch.device("cpu") if self.staged else self.device
        buffer = torch.empty(num_bytes, dtype=torch.uint8, device=device, pin_memory=self.staged)
        _synchronise(buffer)  # the GPU may still be reading the old content of this memory
        return buffer

    def _outgoing(self, packed: Tensor) -> Tensor:
        if self.staged:
            return self._buffer(len(packed)).copy_(packed)
        _synchronise(packed)
        return packed

    def _incoming(self, buffer: Tensor) -> Tensor:
        return buffer.to(self.device, non_blocking=True) if self.staged else buffer


def missing(reason: str) -> str:
    """Return a message that explains how to install the engine's requirements."""
    return (
        f"engine.name=mpi needs mpi4py and an MPI library ({reason}): load the cluster's MPI "
        "module, then pip install 'remuda[mpi]'"
    )


def _synchronise(buffer: Tensor) -> None:
    """Wait for the GPU, because MPI does not synchronise with its stream."""
    if buffer.device.type == "cuda":
        torch.cuda.current_stream(buffer.device).synchronize()
