"""Run all members on one device.

Verbs index tensors. ``map`` runs a loop, one ``vmap``, or a program.
"""

import copy
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from remuda.engines.base import Engine, Pieces, Scan, Step, factors, weighted_sum
from remuda.engines.communicator import Communicator
from remuda.engines.layouts import Layout, is_stacked
from remuda.engines.programs import Program, Signature, signature
from remuda.engines.racing import Arrival, Board, Hub, Later, Pace, Race, Raced, Turn
from remuda.engines.simulated import Posts, Simulation
from remuda.engines.upgrades import Upgrade
from remuda.errors import UserError
from remuda.system.pytorch import tf32
from remuda.system.text import Notify, ignore
from remuda.tensors import calculus, trees
from remuda.tensors.functions import plain
from remuda.tensors.trees import Tree

Precision = Literal["auto", "bf16", "tf32", "fp32"]
# How the steps of a Scan or a loop run: True = compiled before the first round; "auto" = as an
# uncompiled program until a compiled one is ready; "never" = as an uncompiled program, which a GPU
# replays from a CUDA graph; False = step by step.
Compile = bool | Literal["auto", "never"]
PRECISIONS = {"bf16": torch.bfloat16, "tf32": torch.float32, "fp32": torch.float32}


@dataclass
class Horizon:
    """How many rounds are left, including the current one; 0 if unknown."""

    rounds: int = 0


class Stacked(Engine):
    """The whole population in one process.

    ``layout`` decides how ``map`` runs the members: as one batch of networks ("vmap") or one after
    the other ("loop"). On a CPU, "auto" selects the loop, which is faster for all our networks; see
    docs/performance.md. ``compile`` decides whether the steps of a Scan become a program.
    ``precision`` sets the precision of matrix products. ``chunk`` limits how many members are
    stacked at a time. If the device runs out of memory, the engine halves ``chunk`` until the
    members fit.
    """

    def __init__(
        self,
        size: int,
        device: torch.device | str = "cpu",
        layout: Layout = "auto",
        *,
        compile: Compile | None = None,  # None: True on a GPU, False on a CPU
        precision: Precision = "auto",  # auto: bf16 in compiled programs on a GPU
        chunk: int = 0,  # 0: all members
        notify: Notify = ignore,  # receives messages about slow operations
    ):
        self.size = size
        self.members = range(size)
        self.device = torch.device(device)
        self.is_on_gpu = self.device.type == "cuda"
        if precision == "auto":
            precision = "bf16" if self.is_on_gpu else "fp32"
        self.precision: Precision = precision
        self.looped = not is_stacked(layout, self.device)
        self.compile: Compile = self.is_on_gpu if compile is None else compile
        self.horizon = Horizon()
        self.chunk = chunk or size
        self.notify = notify
        self.programs: dict[tuple[Hashable, Signature], Program | Upgrade] = {}
        self.recorded: Sequence[Arrival] | None = None  # the order of the next race
        self._later: Later = None  # the order of all races after that
        self._single: Stacked | None = None
        self._posts: Posts = {}  # of the races that were replayed

    @classmethod
    def build(
        cls,
        communicator: Communicator,
        size: int,
        device: torch.device,
        *,
        hosted: Sequence[range] | None = None,
        grid: tuple[int, int] | None = None,
        cuda_aware: bool = False,
        **settings: Any,
    ) -> Engine:
        """Build the engine from a configuration; ignore settings that concern only ranks."""
        return cls(size, device, **settings)

    def map(self, fn: Callable[..., Tree], *rows: Tree) -> Tree:
        with self._arithmetic():
            if self.looped:
                return trees.stack([fn(*trees.row(rows, i)) for i in range(len(self.members))])
            parts = self._map_chunks(fn, rows)
        if len(parts) == 1:
            return parts[0]
        return trees.map(lambda *leaves: torch.cat(leaves), *parts)

    def _map_chunks(self, fn: Callable[..., Tree], rows: Tree) -> list[Tree]:
        while True:
            try:
                return [self._map_stacked(fn, part) for part in self._chunks(rows)]
            except torch.OutOfMemoryError:
                if self.chunk == 1:
                    raise
            self._halve_chunk()

    def _halve_chunk(self) -> None:
        self.chunk = -(-self.chunk // 2)
        self.expect(0)
        self.programs.clear()
        torch.cuda.empty_cache()
        self.notify(f"out of device memory; continuing with {self.chunk} members at a time")

    def _chunks(self, rows: Tree) -> list[Tree]:
        starts = range(0, len(self.members), self.chunk)
        return [trees.map(lambda leaf, a=a: leaf[a : a + self.chunk], rows) for a in starts]

    def _map_stacked(self, fn: Callable[..., Tree], rows: Tree) -> Tree:
        if not isinstance(fn, Scan):
            return calculus.stacked(plain(fn))(*rows)
        carry, *inputs = rows
        by_step = trees.map(lambda leaf: leaf.transpose(0, 1), tuple(inputs))
        step = calculus.vmapped(plain(fn.step))
        if self.compile:
            pieces = [calculus.vmapped(plain(piece)) for piece in fn.pieces or ()] or [step]
            carry, outs = self._run_program(fn, step, pieces, carry, by_step)
        else:
            carry, outs = Scan(calculus.composable(step))(carry, *by_step)
        return carry, trees.map(lambda leaf: leaf.transpose(0, 1), outs)

    def expect(self, rounds: int) -> None:
        self.horizon.rounds = rounds
        if rounds == 0:
            for program in self._all_programs():
                program.cancel()

    @property
    def is_preparing(self) -> bool:
        return any(program.is_preparing for program in self._all_programs())

    def _all_programs(self) -> list[Program | Upgrade]:
        """Return the programs of this engine and of its engine for a single member."""
        single = self._single.programs if self._single else {}
        return [*self.programs.values(), *single.values()]

    @property
    def compiles_loops(self) -> bool:
        """Whether the steps of a loop become a program, whose Python code runs only once."""
        return bool(self.compile) and not self.looped and self.chunk >= self.size

    @property
    def eager(self) -> "Stacked":
        """The same engine without programs."""
        return Stacked(
            self.size,
            self.device,
            "vmap",
            compile=False,
            precision=self.precision,
            chunk=self.chunk,
        )

    def loop(
        self, step: Step, state: Tree, *inputs: Tree, pieces: Pieces | None = None
    ) -> tuple[Tree, Tree]:
        if self.compiles_loops:
            try:
                return self._run_loop(step, pieces, state, inputs)
            except torch.OutOfMemoryError:
                if self.chunk == 1:
                    raise
            self._halve_chunk()
        return super().loop(step, state, *inputs)

    def race(self, turn: Turn, exchange: Hub | Board, state: Race, count: int, pace: Pace) -> Raced:
        with self._arithmetic():
            simulation = Simulation(self.single, turn, exchange, state, pace, self.device)
            if self.recorded is None:
                return simulation.run(count)
            return simulation.replay(self.recorded, self._posts, self._later)

    def follow(self, arrivals: Sequence[Arrival] | None, later: Later = None) -> None:
        self.recorded, self._later = arrivals, later

    def single(self, member: int) -> "Stacked":
        """Return an engine that hosts only this member."""
        if self._single is None:
            layout = "loop" if self.looped else "vmap"
            self._single = Stacked(
                1,
                self.device,
                layout,
                compile=self.compile,
                precision=self.precision,
                notify=self.notify,
            )
            self._single.horizon = self.horizon
        engine = copy.copy(self._single)
        engine.members = [member]
        return engine

    def _run_loop(
        self, step: Step, pieces: Pieces | None, state: Tree, inputs: Tree
    ) -> tuple[Tree, Tree]:
        """Run a loop as a program."""
        eager = self.eager

        def whole(step: Step) -> Step:
            function = plain(step)
            return lambda carry, *now: function(eager, carry, *now)

        parts = [whole(piece) for piece in pieces or (step,)]
        with self._arithmetic():
            return self._run_program(step, whole(step), parts, state, inputs)

    def _run_program(
        self,
        name: Hashable,
        step: Callable[..., Any],
        pieces: list[Callable[..., Any]],  # the same step for a compiler
        carry: Tree,
        inputs: Tree,
    ) -> tuple[Tree, Tree]:
        key = name, signature((carry, inputs))
        if key not in self.programs:
            self.programs[key] = self._new_program(step, pieces, carry, inputs)
        return self.programs[key](carry, inputs)

    def _new_program(
        self,
        step: Callable[..., Any],
        pieces: list[Callable[..., Any]],
        carry: Tree,
        inputs: Tree,
    ) -> Program | Upgrade:
        precision = PRECISIONS[self.precision]

        def build(carry: Tree, inputs: Tree, *, is_compiled: bool) -> Program:
            functions = pieces if is_compiled else [step]
            return Program(functions, carry, inputs, precision, is_compiled=is_compiled)

        if self.compile == "auto":
            return Upgrade(build, lambda: self.horizon.rounds, self._arithmetic, self.notify)
        if self.compile == "never":
            return build(carry, inputs, is_compiled=False)
        self.notify("compiling; this takes about a minute the first time on a machine")
        try:
            return build(carry, inputs, is_compiled=True)
        except Exception as error:
            if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
                raise
            reason = str(error).strip().splitlines()[0]
            raise UserError(
                f"cannot compile the training step ({reason}): PyTorch's compiler needs a C "
                "compiler and Triton; to train without it, use --set engine.compile=false"
            ) from error

    def take(self, rows: Tree, source: Tensor) -> Tree:
        source = source.to(self.device)
        return trees.map(lambda leaf: leaf[source], rows)

    def mean(self, rows: Tree, weights: Tensor, dtype: torch.dtype = torch.float64) -> Tree:
        if weights.ndim == 2:  # a product of matrices; in single precision, autocast would round it
            dtype = torch.float64
        terms, divisor = factors(weights.to(self.device), dtype)

        def average(leaf: Tensor) -> Tensor:
            if not leaf.is_floating_point():
                return leaf.clone()
            if terms.ndim == 2:
                return torch.einsum("mn,n...->m...", terms, leaf.double()).to(leaf.dtype)
            mean = weighted_sum(leaf, terms, dtype) / divisor.to(dtype)
            return mean.to(leaf.dtype).expand_as(leaf).clone()

        return trees.map(average, rows)

    def scatter(self, fn: Callable[..., Tree], *server: Any) -> Tree:
        with self._arithmetic():
            return fn(*server)

    def gather(self, fn: Callable[..., Tree], server: Any, *rows: Tree) -> Tree:
        with self._arithmetic():
            return fn(server, *rows)

    def _arithmetic(self) -> AbstractContextManager[None]:
        """Set the precision of a GPU's float32 arithmetic while this engine computes."""
        if not self.is_on_gpu or torch.compiler.is_dynamo_compiling():
            return nullcontext()
        return tf32(self.precision != "fp32")
