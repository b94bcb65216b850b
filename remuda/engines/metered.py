"""Count the bytes that an engine moves, and measure the seconds that its verbs take."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor

from remuda.engines.base import Engine, Pieces, Step
from remuda.engines.programs import signature
from remuda.engines.racing import Arrival, Board, Hub, Later, Pace, Race, Raced, Turn
from remuda.engines.stacked import Stacked
from remuda.tensors import trees
from remuda.tensors.trees import Tree


class Metered(Engine):
    """Wraps an engine and measures its verbs.

    ``bytes[verb, direction]`` counts the bytes that the population has sent since ``reset``. The
    direction is "across" (from member to member), "up" (from members to the server) or "down"
    (from the server to members). Rows that stay with their member do not count. The count is a
    property of the algorithm: it does not depend on where the members live.

    ``verbs`` holds the seconds that this process spent in each verb, including the functions that
    the verb runs and the wait for other ranks. A GPU is synchronised before and after each verb.
    Verbs inside a compiled loop cannot be timed separately, so their time counts as "loop".
    """

    def __init__(self, engine: Engine):
        self.engine = engine
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.seconds: dict[str, float] = defaultdict(float)  # by the strategy's routine
        self.verbs: dict[str, float] = defaultdict(float)  # seconds by verb
        self.calls: Counter[str] = Counter()  # by verb
        self.arrivals: list[Arrival] = []  # of the last race
        self._one_step: dict[Any, Metered] = {}  # the counts for one step of each compiled loop

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.engine.size

    @property
    def members(self) -> Sequence[int]:  # type: ignore[override]
        return self.engine.members

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self.engine.device

    def reset(self) -> None:
        """Set all counts and times to zero."""
        for counts in (self.bytes, self.seconds, self.verbs, self.calls):
            counts.clear()
        self.arrivals = []

    def expect(self, rounds: int) -> None:
        self.engine.expect(rounds)

    @property
    def is_preparing(self) -> bool:
        return self.engine.is_preparing

    def timed(self, routine: str) -> AbstractContextManager[None]:
        return self._timed(self.seconds, routine)

    @contextmanager
    def _timed(self, seconds: dict[str, float], name: str) -> Iterator[None]:
        start = self._now()
        try:
            yield
        finally:
            seconds[name] += self._now() - start

    def _verb(self, name: str) -> AbstractContextManager[None]:
        self.calls[name] += 1
        return self._timed(self.verbs, name)

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # the GPU may still be busy with earlier work
        return time.perf_counter()

    def map(self, fn: Callable[..., Tree], *rows: Tree) -> Tree:
        with self._verb("map"):
            return self.engine.map(fn, *rows)

    def take(self, rows: Tree, source: Tensor) -> Tree:
        foreign = source.cpu().reshape(self.size, -1) != torch.arange(self.size)[:, None]
        self.bytes["take", "across"] += int(foreign.sum()) * self._row_bytes(rows)
        with self._verb("take"):
            return self.engine.take(rows, source)

    def mean(self, rows: Tree, weights: Tensor, dtype: torch.dtype = torch.float64) -> Tree:
        floating = [leaf for leaf in trees.leaves(rows) if leaf.is_floating_point()]
        row = self._row_bytes(tuple(floating))
        used = weights > 0  # weight 0: nothing is sent
        senders, receivers = used, torch.ones_like(used)
        if weights.ndim == 2:  # a member whose mean contains only its own row sends nothing
            others = used & ~torch.eye(self.size, dtype=torch.bool, device=used.device)
            senders, receivers = others.any(0), others.any(1)
        self.bytes["mean", "up"] += int(senders.sum()) * row
        self.bytes["mean", "down"] += int(receivers.sum()) * row
        with self._verb("mean"):
            return self.engine.mean(rows, weights, dtype)

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
        self, step: Step, state: Tree, *inputs: Tree, pieces: Pieces | None = None
    ) -> tuple[Tree, Tree]:
        """Run a loop. For a compiled loop, count one eager step and multiply by the steps."""
        engine = self.engine
        if not (isinstance(engine, Stacked) and engine.compiles_loops):
            return super().loop(step, state, *inputs)
        key = step, signature((state, inputs))
        if key not in self._one_step:
            self._one_step[key] = Metered(engine.eager)
            step(self._one_step[key], state, *trees.row(inputs, 0))
        num_steps, one = trees.leaves(inputs)[0].shape[0], self._one_step[key]
        self.bytes.update({name: num_steps * count for name, count in one.bytes.items()})
        self.calls.update({verb: num_steps * count for verb, count in one.calls.items()})
        with self._timed(self.verbs, "loop"):
            return engine.loop(step, state, *inputs, pieces=pieces)

    def race(self, turn: Turn, exchange: Hub | Board, state: Race, count: int, pace: Pace) -> Raced:
        with self._verb("race"):
            raced = self.engine.race(turn, exchange, state, count, pace)
        self.arrivals = raced.arrivals
        for direction, number in raced.traffic.items():
            self.bytes["race", direction] += number
        return raced

    def follow(self, arrivals: Sequence[Arrival] | None, later: Later = None) -> None:
        self.engine.follow(arrivals, later)

    def _row_bytes(self, rows: Tree) -> int:
        return trees.num_bytes(rows) // max(1, len(self.members))
