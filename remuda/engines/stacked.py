"""All members on one device: verbs are indexing, ``map`` is a loop, one ``vmap``, or a compiled program."""

from collections.abc import Callable, Hashable
from typing import Any, Literal

import torch
from torch import Tensor

from remuda.engines.base import Engine, Scan
from remuda.engines.programs import Program, Signature, signature
from remuda.errors import UserError
from remuda.tensors import calculus, trees
from remuda.tensors.trees import Tree

Precision = Literal["auto", "bf16", "tf32", "fp32"]
PRECISIONS = {"bf16": torch.bfloat16, "tf32": torch.float32, "fp32": torch.float32}


class Stacked(Engine):
    """The population in one process.

    ``layout`` says how ``map`` treats the members: "vmap" runs them as one batch of networks, "loop" one after the
    other. On a CPU a loop is the faster for all our networks, so "auto" loops there; see docs/performance.md.
    ``compile`` makes a program of the steps of a Scan, ``precision`` is that of the matrix products in it. ``chunk``
    bounds how many members are stacked at a time; where memory does not suffice, it is halved until it does.
    """

    def __init__(
        self,
        size: int,
        device: torch.device | str = "cpu",
        layout: Literal["auto", "loop", "vmap"] = "auto",
        *,
        compile: bool | None = None,  # None: on a GPU
        precision: Precision = "auto",  # auto: bf16 in compiled programs on a GPU
        chunk: int = 0,  # 0: all
    ):
        self.size = size
        self.members = range(size)
        self.device = torch.device(device)
        on_gpu = self.device.type == "cuda"
        self.looped = layout == "loop" or (layout == "auto" and not on_gpu)
        self.compiled = on_gpu if compile is None else compile
        self.precision: Precision = (
            ("bf16" if on_gpu else "fp32") if precision == "auto" else precision
        )
        self.chunk = chunk or size
        self.programs: dict[tuple[Hashable, Signature], Program] = {}
        if on_gpu:
            torch.set_float32_matmul_precision("highest" if self.precision == "fp32" else "high")
            torch.backends.cudnn.allow_tf32 = self.precision != "fp32"

    def map(self, fn: Callable[..., Tree], *rows: Tree) -> Tree:
        if self.looped:
            return trees.stack([fn(*trees.row(rows, i)) for i in range(len(self.members))])
        while True:
            try:
                parts = [self._map_stacked(fn, part) for part in self._chunks(rows)]
                break
            except torch.OutOfMemoryError:
                if self.chunk == 1:
                    raise
                self.chunk = -(-self.chunk // 2)
                self.programs.clear()
                torch.cuda.empty_cache()
                self.say(
                    f"the device's memory does not hold the herd at once: going on by {self.chunk} members"
                )
        return parts[0] if len(parts) == 1 else trees.map(lambda *leaves: torch.cat(leaves), *parts)

    def _chunks(self, rows: Tree) -> list[Tree]:
        starts = range(0, len(self.members), self.chunk)
        return [trees.map(lambda leaf, a=start: leaf[a : a + self.chunk], rows) for start in starts]

    def _map_stacked(self, fn: Callable[..., Tree], rows: Tree) -> Tree:
        if not isinstance(fn, Scan):
            return calculus.stacked(fn)(*rows)
        carry, *inputs = rows
        by_step = trees.map(lambda leaf: leaf.transpose(0, 1), tuple(inputs))
        if self.compiled:
            functions = [calculus.stacked(part) for part in fn.pieces or (fn.step,)]
            carry, outs = self._run_program(fn, functions, carry, by_step)
        else:
            carry, outs = Scan(calculus.stacked(fn.step))(carry, *by_step)
        return carry, trees.map(lambda leaf: leaf.transpose(0, 1), outs)

    @property
    def compiles_loops(self) -> bool:  # type: ignore[override]
        return self.compiled and not self.looped and self.chunk >= self.size

    @property
    def eager(self) -> "Stacked":
        return Stacked(
            self.size,
            self.device,
            "vmap",
            compile=False,
            precision=self.precision,
            chunk=self.chunk,
        )

    def loop(
        self, step: Callable[..., tuple[Tree, Tree]], state: Tree, *inputs: Tree
    ) -> tuple[Tree, Tree]:
        if not self.compiles_loops:
            return super().loop(step, state, *inputs)
        eager = self.eager
        whole = calculus.composable(lambda carry, *now: step(eager, carry, *now))
        return self._run_program(step, [whole], state, inputs)

    def _run_program(
        self, name: Hashable, functions: list[Callable[..., Any]], carry: Tree, inputs: Tree
    ) -> tuple[Tree, Tree]:
        key = name, signature((carry, inputs))
        try:
            if key not in self.programs:
                self.say("compiling; the first time on a machine this takes some minutes")
                self.programs[key] = Program(functions, carry, inputs, PRECISIONS[self.precision])
            return self.programs[key](carry, inputs)
        except Exception as error:
            if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
                raise
            reason = str(error).strip().splitlines()[0]
            raise UserError(
                f"the herd's step could not be compiled ({reason}): PyTorch's compiler needs a C compiler and Triton; "
                "do without by --set engine.compile=false"
            ) from error

    def take(self, rows: Tree, source: Tensor) -> Tree:
        source = source.to(self.device)
        return trees.map(lambda leaf: leaf[source], rows)

    def mean(self, rows: Tree, weights: Tensor) -> Tree:
        share = (weights.double() / weights.double().sum()).to(self.device)

        def average(leaf: Tensor) -> Tensor:
            if not leaf.is_floating_point():
                return leaf.clone()
            return (
                torch.einsum("n,n...->...", share, leaf.double())
                .to(leaf.dtype)
                .expand_as(leaf)
                .clone()
            )

        return trees.map(average, rows)

    def scatter(self, fn: Callable[..., Tree], *server: Any) -> Tree:
        return fn(*server)

    def gather(self, fn: Callable[..., Tree], server: Any, *rows: Tree) -> Tree:
        return fn(server, *rows)
