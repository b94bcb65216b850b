"""Members spread over the ranks of a job: verbs are messages of flat bytes, and ``map`` is that of ``stacked``.

Every rank runs the same strategy on its own span of members, so all ranks call the same verbs in the same order, with
the same tables and weights. A verb sends one message at most from a rank to another. The server is rank 0.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from remuda.engines.base import Engine
from remuda.engines.communicator import Transport
from remuda.engines.mpi import packing
from remuda.engines.mpi.spans import deliver, spans
from remuda.engines.stacked import Stacked
from remuda.tensors import trees
from remuda.tensors.trees import Tree

# Tags of messages. A scatter's tells the description of its rows, which the receivers have been sent before.
TAKE, GATHER, DESCRIPTION, FIRST_SCATTER = range(4)


class Ranks(Engine):
    """The part of the population that this rank hosts.

    ``sent`` counts the bytes of rows that this rank has given to others, by verb; for ``mean`` the float64 numbers
    that it has put into the sum.
    """

    def __init__(
        self,
        world: Transport,
        size: int,
        device: torch.device | str = "cpu",
        *,
        grid: tuple[int, int] | None = None,  # the members' places on a torus
        cuda_aware: bool = False,  # whether messages may lie in a GPU's memory
        **stacked: Any,  # how the members hosted here are treated
    ):
        self.world, self.size = world, size
        self.rank, self.num_ranks = world.rank, world.num_ranks
        self.hosts = spans(size, world.num_ranks)
        self.members = self.span = self.hosts[world.rank]
        self.inner = Stacked(len(self.members), device, **stacked)
        self.device = self.inner.device
        self.staged = self.device.type == "cuda" and not cuda_aware
        self.sent: Counter[str] = Counter()
        self._descriptions: dict[str, int] = {}  # those that travelled, by their place
        if grid is not None and self.num_ranks == size > 1:
            world.arrange(grid)

    @property
    def say(self):  # type: ignore[override]
        return self.inner.say

    @say.setter
    def say(self, listener: Callable[[str], None]) -> None:  # type: ignore[override]
        self.inner.say = listener

    @property
    def compiles_loops(self) -> bool:  # type: ignore[override]
        return self.num_ranks == 1 and self.inner.compiles_loops

    @property
    def eager(self) -> Engine:
        return self.inner.eager if self.num_ranks == 1 else self

    def map(self, fn: Callable[..., Tree], *rows: Tree) -> Tree:
        return self.inner.map(fn, *rows)

    def loop(
        self, step: Callable[..., tuple[Tree, Tree]], state: Tree, *inputs: Tree
    ) -> tuple[Tree, Tree]:
        if self.num_ranks == 1:
            return self.inner.loop(step, state, *inputs)
        return super().loop(step, state, *inputs)

    def take(self, rows: Tree, source: Tensor) -> Tree:
        if self.num_ranks == 1:
            return self.inner.take(rows, source)
        plan, leaves = deliver(source, self.hosts, self.rank), trees.leaves(rows)
        size = packing.row_bytes(leaves)
        incoming = {
            other: self._buffer((part.stop - part.start) * size)
            for other, part in plan.incoming.items()
            if other != self.rank
        }
        outgoing = {
            other: self._outgoing(packing.pack(leaves, chosen))
            for other, chosen in plan.outgoing.items()
        }
        self._exchange("take", outgoing, incoming, TAKE)
        pool = [leaf.new_empty(len(plan.needed), *leaf.shape[1:]) for leaf in leaves]
        if self.rank in plan.incoming:
            own = plan.incoming[self.rank]
            mine = [member - self.span.start for member in plan.needed[own]]
            for target, leaf in zip(pool, leaves, strict=True):
                target[own] = leaf[mine]
        for other, buffer in incoming.items():
            packing.unpack(self._incoming(buffer), pool, plan.incoming[other])
        places = plan.places.to(self.device)
        taken = iter([leaf[places] for leaf in pool])
        return trees.map(lambda _: next(taken), rows)

    def mean(self, rows: Tree, weights: Tensor) -> Tree:
        if self.num_ranks == 1:
            return self.inner.mean(rows, weights)
        share = (weights.double() / weights.double().sum()).to(self.device)[
            self.span.start : self.span.stop
        ]
        sums = [
            torch.einsum("n,n...->...", share, leaf.double()).flatten()
            for leaf in trees.leaves(rows)
            if leaf.is_floating_point()
        ]
        if not sums:
            return trees.map(torch.clone, rows)
        flat = torch.cat(sums).cpu()
        self.sent["mean"] += flat.numel() * flat.element_size()
        self.world.add(flat)
        means = iter(flat.to(self.device).split([len(part) for part in sums]))

        def average(leaf: Tensor) -> Tensor:
            if not leaf.is_floating_point():
                return leaf.clone()
            return next(means).view(leaf.shape[1:]).to(leaf.dtype).expand_as(leaf).clone()

        return trees.map(average, rows)

    def scatter(self, fn: Callable[..., Tree], *server: Any) -> Tree:
        if self.num_ranks == 1:
            return trees.to(fn(*server), self.device)
        return self._hand_out(fn(*server)) if self.is_root else self._receive_rows()

    def _hand_out(self, rows: Tree) -> Tree:
        description, leaves = packing.describe(rows), trees.leaves(rows)
        others = range(1, self.num_ranks)
        if description not in self._descriptions:
            self._descriptions[description] = len(self._descriptions)
            text = torch.frombuffer(bytearray(description.encode()), dtype=torch.uint8)
            self.world.exchange(dict.fromkeys(others, text), {}, DESCRIPTION)
        parts = [slice(host.start, host.stop) for host in self.hosts]
        outgoing = {other: self._outgoing(packing.pack(leaves, parts[other])) for other in others}
        self._exchange("scatter", outgoing, {}, FIRST_SCATTER + self._descriptions[description])
        return trees.map(lambda leaf: leaf[parts[0]].to(self.device), rows)

    def _receive_rows(self) -> Tree:
        while True:
            tag, size = self.world.upcoming(0)
            if tag != DESCRIPTION:
                break
            text = torch.empty(size, dtype=torch.uint8)
            self.world.exchange({}, {0: text}, DESCRIPTION)
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
        """Elsewhere than at rank 0 there is no server, and the result is the empty tree."""
        if self.num_ranks == 1:
            return fn(server, *rows)
        leaves = trees.leaves(rows)
        size = packing.row_bytes(leaves)
        if not self.is_root:
            self._exchange(
                "gather", {0: self._outgoing(packing.pack(leaves, slice(None)))}, {}, GATHER
            )
            return ()
        incoming = {
            other: self._buffer(len(self.hosts[other]) * size) for other in range(1, self.num_ranks)
        }
        self._exchange("gather", {}, incoming, GATHER)
        whole = [leaf.new_empty(self.size, *leaf.shape[1:]) for leaf in leaves]
        for target, leaf in zip(whole, leaves, strict=True):
            target[: len(self.members)] = leaf
        for other, buffer in incoming.items():
            packing.unpack(
                self._incoming(buffer),
                whole,
                slice(self.hosts[other].start, self.hosts[other].stop),
            )
        complete = iter(whole)
        return fn(server, *trees.map(lambda _: next(complete), rows))

    def agree(self, number: int) -> int:
        return self.world.agree(number)

    def _exchange(
        self, verb: str, outgoing: dict[int, Tensor], incoming: dict[int, Tensor], tag: int
    ) -> None:
        self.sent[verb] += sum(len(buffer) for buffer in outgoing.values())
        self.world.exchange(outgoing, incoming, tag)

    # Between the device and the memory that messages lie in

    def _buffer(self, num_bytes: int) -> Tensor:
        device = torch.device("cpu") if self.staged else self.device
        buffer = torch.empty(num_bytes, dtype=torch.uint8, device=device, pin_memory=self.staged)
        _settle(buffer)  # what lay in its memory before may still be read
        return buffer

    def _outgoing(self, packed: Tensor) -> Tensor:
        if self.staged:
            return self._buffer(len(packed)).copy_(packed)
        _settle(packed)
        return packed

    def _incoming(self, buffer: Tensor) -> Tensor:
        return buffer.to(self.device, non_blocking=True) if self.staged else buffer


def _settle(buffer: Tensor) -> None:
    """Messages are read and written beside a GPU's stream of work, so that has to be done."""
    if buffer.device.type == "cuda":
        torch.cuda.current_stream(buffer.device).synchronize()
