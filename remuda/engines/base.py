"""Define the engine interface: five verbs on rows, and loops that an engine may compile."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from remuda.engines.communicator import Communicator, SingleProcess
from remuda.engines.racing import Arrival, Board, Hub, Later, Pace, Race, Raced, Turn
from remuda.tensors import trees
from remuda.tensors.trees import Tree

Step = Callable[..., tuple[Tree, Tree]]


class Engine(ABC):
    """Hosts members, and runs the verbs that compute and move their rows.

    *Rows* are trees whose leaves have a leading axis with one entry per member hosted here. Verbs
    return new rows and leave their arguments unchanged.
    """

    spans_processes: ClassVar[bool] = False  # whether members may live in several processes

    size: int  # members in the whole population
    members: Sequence[int]  # members hosted here, one per row, as positions in the population
    device: torch.device

    @classmethod
    def join(cls) -> Communicator:
        """Return the communicator of the processes that host this engine's members."""
        return SingleProcess()

    @abstractmethod
    def map(self, fn: Callable[..., Tree], *rows: Tree) -> Tree:
        """Run ``fn`` on every member hosted here."""

    @abstractmethod
    def take(self, rows: Tree, source: Tensor) -> Tree:
        """Give member i the row ``source[i]``, or K rows if ``source`` has the shape (size, K)."""

    @abstractmethod
    def mean(self, rows: Tree, weights: Tensor, dtype: torch.dtype = torch.float64) -> Tree:
        """Give every member the weighted mean of the floating-point leaves.

        Each member keeps its other leaves, such as counters and random streams. The weights have
        the shape (size,) and may have any positive sum. If they have the shape (size, size), member
        i receives the mean with the weights in row i. Sums have the type ``dtype``, or a more
        precise one.
        """

    @abstractmethod
    def scatter(self, fn: Callable[..., Tree], *server: Any) -> Tree:
        """Run ``fn`` on the server, and send row i of its result to member i."""

    @abstractmethod
    def gather(self, fn: Callable[..., Tree], server: Any, *rows: Tree) -> Tree:
        """Send all rows to the server, and return its new state, ``fn(server, *rows)``."""

    def loop(
        self, step: Step, state: Tree, *inputs: Tree, pieces: "Pieces | None" = None
    ) -> tuple[Tree, Tree]:
        """Run ``state, out = step(engine, state, *inputs[s])`` for s = 0, 1, ...

        Return the last state and the stacked outs of all steps. Use this method for rounds of many
        short iterations that call verbs: an engine may compile and replay them. A step must use
        the engine that it receives, and only tensors from its arguments. ``pieces`` is the same
        step, split into repeating parts for a compiler; the inputs then have the axes (steps,
        members, K, ...).
        """
        outs = []
        for s in range(trees.leaves(inputs)[0].shape[0]):
            state, out = step(self, state, *trees.row(inputs, s))
            outs.append(out)
        return state, trees.stack(outs)

    @abstractmethod
    def race(self, turn: Turn, exchange: Hub | Board, state: Race, count: int, pace: Pace) -> Raced:
        """Run members at their own pace until ``count`` turns have arrived.

        If an engine simulates the race, ``pace`` tells how long each turn takes. Otherwise turns
        take as long as they take, and a few more than ``count`` may arrive.
        """

    def follow(self, arrivals: Sequence[Arrival] | None, later: Later = None) -> None:
        """Let the next race repeat these arrivals; None lets races find their own order.

        The arrivals of all later races tell which mail the members have at the end of this one, and
        which messages are still needed. None means that they are not known yet.
        """
        raise NotImplementedError

    def expect(self, rounds: int) -> None:
        """Learn how many rounds are left, including the next one; 0 ends all preparations."""
        return None

    @property
    def is_preparing(self) -> bool:
        """Whether later rounds will run at another speed, because a program is being compiled."""
        return False

    def timed(self, routine: str) -> AbstractContextManager[None]:
        """Time a ``with`` block, and record the time under this name."""
        return nullcontext()

    def create(self, fn: Callable[[int], Tree]) -> Tree:
        """Create one row with ``fn(member)`` for each member hosted here.

        Rows go to the device one by one, so the host holds only one of them at a time.
        """
        rows = None
        for i, member in enumerate(self.members):
            row = fn(member)
            if rows is None:
                rows = trees.map(self._empty_rows, row)
            trees.map(lambda all_rows, leaf, i=i: all_rows[i].copy_(leaf), rows, row)
        assert rows is not None, "an engine hosts at least one member"
        return rows

    def _empty_rows(self, leaf: Tensor) -> Tensor:
        return leaf.new_empty(len(self.members), *leaf.shape, device=self.device)


class Pieces(NamedTuple):
    """A step in two pieces, the first of which repeats K times.

    In a Scan, all inputs have a leading axis K; in a loop, it follows the axis of members, and the
    pieces receive the engine first. The step runs ``carry, out = repeated(carry, *inputs[k])``
    for k = 0, ..., K - 1, then ``carry, out = last(carry, *inputs[K - 1])``. Both outs are dicts.
    The out of the step is the union of the last out and the mean of the repeated outs.
    """

    repeated: Callable[..., tuple[Tree, dict[str, Tensor]]]
    last: Callable[..., tuple[Tree, dict[str, Tensor]]]


def factors(weights: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return factors for the terms of a sum, and the divisor that makes the sum a mean.

    In double precision, the factors have the sum 1. In single precision, the largest factor is 1:
    then the mean of equal numbers is that number, and repeated averages do not drift.
    """
    weights = weights.double()
    if dtype == torch.float64:
        return weights / weights.sum(-1, keepdim=True), torch.ones_like(weights[..., 0])
    relative = weights / weights.amax(-1, keepdim=True)
    return relative, relative.sum(-1)


def weighted_sum(leaf: Tensor, factors: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the sum of the rows of a leaf with these factors (n,), in this type."""
    if dtype == torch.float64:
        return torch.einsum("n,n...->...", factors, leaf.double())
    # Under autocast, einsum would compute in half precision.
    return (factors.to(dtype).reshape(-1, *[1] * (leaf.ndim - 1)) * leaf.to(dtype)).sum(0)


@dataclass(frozen=True)
class Scan:
    """A function of one member that repeats the same step.

    A call runs ``carry, out = step(carry, *inputs[s])`` for s = 0, 1, ... and stacks the outs.
    Engines may use ``step`` directly to stack, compile or replay a single step. ``pieces`` is the
    same step, split into repeating parts. Compile time grows with the length of a program, so the
    compiler gets each part only once.
    """

    step: Callable[..., tuple[Tree, Tree]]
    pieces: Pieces | None = None

    def __call__(self, carry: Tree, *inputs: Tree) -> tuple[Tree, Tree]:
        num_steps = trees.leaves(inputs)[0].shape[0]
        outs = []
        for s in range(num_steps):
            carry, out = self.step(carry, *trees.row(inputs, s))
            outs.append(out)
        return carry, trees.stack(outs)
