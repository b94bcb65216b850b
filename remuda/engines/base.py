"""What an engine offers: five verbs over rows, and the steps that ``map`` may unroll, compile or replay."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from remuda.tensors import trees
from remuda.tensors.trees import Tree


class Engine(ABC):
    """Where the axis of members lives, and how rows travel along it.

    *Rows* are trees whose leaves carry one leading row per member hosted here. Verbs return new rows and leave their
    arguments as they are.
    """

    size: int  # members in the whole population
    members: Sequence[int]  # ids of those hosted here, in the order of the rows
    device: torch.device
    rank: int = 0  # of this process among those that host members
    num_ranks: int = 1
    say: Callable[[str], None] = staticmethod(
        lambda text: None
    )  # where to tell the user of long work
    compiles_loops: bool = (
        False  # whether the steps of a loop are compiled, so that their Python runs once
    )

    @property
    def is_root(self) -> bool:
        """Whether this process hosts the server, writes the record, and speaks to the user."""
        return self.rank == 0

    @property
    def eager(self) -> "Engine":
        """The same members without compilation."""
        return self

    @abstractmethod
    def map(self, fn: Callable[..., Tree], *rows: Tree) -> Tree:
        """Run fn on every member hosted here."""

    @abstractmethod
    def take(self, rows: Tree, source: Tensor) -> Tree:
        """Member i receives row source[i], or with a source of shape (size, K) the K rows source[i]."""

    @abstractmethod
    def mean(self, rows: Tree, weights: Tensor) -> Tree:
        """Every member receives the weighted mean of the floating-point leaves; the others stay its own.

        Weights has shape (size,) and any positive sum. Counters and random streams are not numbers to average.
        """

    @abstractmethod
    def scatter(self, fn: Callable[..., Tree], *server: Any) -> Tree:
        """Run fn at the server; row i of its result goes to member i."""

    @abstractmethod
    def gather(self, fn: Callable[..., Tree], server: Any, *rows: Tree) -> Tree:
        """All rows, in the order of the members, reach the server, whose state becomes fn(server, *rows)."""

    def loop(
        self, step: Callable[..., tuple[Tree, Tree]], state: Tree, *inputs: Tree
    ) -> tuple[Tree, Tree]:
        """``state, out = step(engine, state, *inputs[s])`` for s = 0, 1, ...: the last state, and all outs stacked.

        For a round of many short iterations that use the verbs: as a whole they can be compiled and replayed. A step
        takes the engine that it is given, and uses tensors of its arguments alone.
        """
        outs = []
        for s in range(trees.leaves(inputs)[0].shape[0]):
            state, out = step(self, state, *trees.row(inputs, s))
            outs.append(out)
        return state, trees.stack(outs)

    def agree(self, number: int) -> int:
        """The largest of all ranks' numbers, once each has given its own."""
        return number

    def timed(self, routine: str) -> AbstractContextManager[None]:
        """For a ``with`` statement around one of a round's routines, by a name of the strategy's."""
        return nullcontext()

    def create(self, fn: Callable[[int], Tree]) -> Tree:
        """Rows made by fn(member) for each member hosted here."""
        return trees.to(trees.stack([fn(member) for member in self.members]), self.device)

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *exception: object) -> None:
        return None


class Pieces(NamedTuple):
    """A step that begins with K equal pieces; its inputs all have a leading axis K.

    ``carry, out = repeated(carry, *inputs[k])`` for k = 0, 1, ..., K - 1, then ``carry, out = last(carry,
    *inputs[K - 1])``. Both put out dicts; the step puts out their union, the first averaged over k.
    """

    repeated: Callable[..., tuple[Tree, dict[str, Tensor]]]
    last: Callable[..., tuple[Tree, dict[str, Tensor]]]


@dataclass(frozen=True)
class Scan:
    """A member function made of equal steps: ``carry, out = step(carry, *inputs[s])`` for s = 0, 1, ...

    Calling it runs the steps one after the other and stacks what they put out. Engines may look inside, to stack,
    compile or replay the single step. ``pieces`` is the same step in other words, where parts of it repeat: a compiler
    takes its time by the length of what it is given, and so gets each piece once.
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
