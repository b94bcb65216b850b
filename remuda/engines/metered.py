"""An engine that counts the bytes which another one moves, whoever moves them, and the seconds that it takes."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor

from remuda.engines.base import Engine
from remuda.engines.programs import signature
from remuda.tensors import trees
from remuda.tensors.trees import Tree


class Metered(Engine):
    """Wraps an engine; ``bytes[verb, direction]`` is what the whole population has sent since ``reset``.

    Directions: "across" from member to member, "up" from members to the server, "down" from the server to members.
    What a member keeps for itself is not counted. The count is the algorithm's, the same wherever members live.

    ``verbs`` has the seconds that this process has spent in each verb, with what is run there (at the server, too) and
    the waiting for other ranks. A GPU's work is waited for at both ends of a verb. Verbs of a compiled loop are not
    timed one by one, since they are not there one by one: their time is that of "loop".
    """

    def __init__(self, engine: Engine):
        self.engine = engine
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.seconds: dict[str, float] = defaultdict(
            float
        )  # of routines that the strategy has named, since ``reset``
        self.verbs: dict[str, float] = defaultdict(float)  # seconds of each, since ``reset``
        self.calls: Counter[str] = Counter()  # of each verb, since ``reset``
        self._of_a_step: dict[Any, Metered] = {}

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.engine.size

    @property
    def members(self):  # type: ignore[override]
        return self.engine.members

    @property
    def device(self):  # type: ignore[override]
        return self.engine.device

    @property
    def rank(self):  # type: ignore[override]
        return self.engine.rank

    @property
    def num_ranks(self):  # type: ignore[override]
        return self.engine.num_ranks

    @property
    def say(self):  # type: ignore[override]
        return self.engine.say

    @say.setter
    def say(self, listener: Callable[[str], None]) -> None:  # type: ignore[override]
        self.engine.say = listener

    def reset(self) -> None:
        for kept in (self.bytes, self.seconds, self.verbs, self.calls):
            kept.clear()

    def timed(self, routine: str) -> AbstractContextManager[None]:
        return self._timed(self.seconds, routine)

    @contextmanager
    def _timed(self, seconds: dict[str, float], name: str) -> Iterator[None]:
        began = self._now()
        try:
            yield
        finally:
            seconds[name] += self._now() - began

    def _verb(self, name: str) -> AbstractContextManager[None]:
        self.calls[name] += 1
        return self._timed(self.verbs, name)

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # what was asked for may not be done yet
        return time.perf_counter()

    def map(self, fn: Callable[..., Tree], *rows: Tree) -> Tree:
        with self._verb("map"):
            return self.engine.map(fn, *rows)

    def take(self, rows: Tree, source: Tensor) -> Tree:
        foreign = source.cpu().reshape(self.size, -1) != torch.arange(self.size)[:, None]
        self.bytes["take", "across"] += int(foreign.sum()) * self._row_bytes(rows)
        with self._verb("take"):
            return self.engine.take(rows, source)

    def mean(self, rows: Tree, weights: Tensor) -> Tree:
        floating = [leaf for leaf in trees.leaves(rows) if leaf.is_floating_point()]
        row = self._row_bytes(tuple(floating))
        self.bytes["mean", "up"] += (
            int((weights > 0).sum()) * row
        )  # who does not count sends nothing
        self.bytes["mean", "down"] += self.size * row
        with self._verb("mean"):
            return self.engine.mean(rows, weights)

    def scatter(self, fn: Callable[..., Tree], *server: Any) -> Tree:
        with self._verb("scatter"):
            rows = self.engine.scatter(fn, *server)
        self.bytes["scatter", "down"] += self.size * self._row_bytes(rows)
        return rows

    def gather(self, fn: Callable[..., Tree], server: Any, *rows: Tree) -> Tree:
        self.bytes["gather", "up"] += self.size * self._row_bytes(rows)
        with self._verb("gather"):
            return self.engine.gather(fn, server, *rows)

    def loop(
        self, step: Callable[..., tuple[Tree, Tree]], state: Tree, *inputs: Tree
    ) -> tuple[Tree, Tree]:
        """A compiled loop does not come by here at every step: one step is run apart, and its counts are multiplied."""
        if not self.engine.compiles_loops:
            return super().loop(step, state, *inputs)
        key = step, signature((state, inputs))
        if key not in self._of_a_step:
            apart = Metered(self.engine.eager)
            step(apart, state, *trees.row(inputs, 0))
            self._of_a_step[key] = apart
        num_steps, apart = trees.leaves(inputs)[0].shape[0], self._of_a_step[key]
        self.bytes.update({name: num_steps * count for name, count in apart.bytes.items()})
        self.calls.update({verb: num_steps * count for verb, count in apart.calls.items()})
        with self._timed(self.verbs, "loop"):
            return self.engine.loop(step, state, *inputs)

    def agree(self, number: int) -> int:
        return self.engine.agree(number)

    def _row_bytes(self, rows: Tree) -> int:
        return trees.num_bytes(rows) // max(1, len(self.members))

    def __enter__(self) -> "Metered":
        self.engine.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.engine.__exit__(*exception)
