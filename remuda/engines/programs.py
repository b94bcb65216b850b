"""One step for the whole herd as a program: stacked, compiled, and replayed from a CUDA graph over static buffers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from remuda import calculus, trees
from remuda.trees import Tree

WARM_UP = 3  # calls before a capture: compilation, library handles, lazily allocated workspaces

Signature = tuple[tuple[torch.Size, torch.dtype], ...]


def signature(tree: Tree) -> Signature:
    """The shapes and types that a program is made for."""
    return tuple((leaf.shape, leaf.dtype) for leaf in trees.leaves(tree))


class Program:
    """The steps of a Scan for stacked members.

    Everything that a step reads and writes lives at fixed addresses: the carry, the inputs of all steps, what the
    steps put out, and the number of the step, which the step itself advances. So a step is the same work each time, and
    a round is that many replays, with nothing to wait for in between.
    """

    def __init__(self, step: Callable[..., Any], carry: Tree, inputs: Tree, precision: torch.dtype):
        self.step, self.precision = calculus.stacked(step), precision
        self.carry, self.inputs = trees.map(torch.clone, carry), trees.map(torch.clone, inputs)
        first = trees.leaves(inputs)[0]
        self.num_steps = first.shape[0]
        self.position = torch.zeros(1, dtype=torch.int64, device=first.device)
        self.outs: Tree = None
        self.compiled = torch.compile(self._step_in_place, fullgraph=True, dynamic=False)
        self.replay: Callable[[], None] = self._advance
        if first.device.type == "cuda":
            self.replay = self._captured()

    def __call__(self, carry: Tree, inputs: Tree) -> tuple[Tree, Tree]:
        """All steps from this carry; inputs have a leading axis of steps, and so has what is put out."""
        _overwrite(self.carry, carry)
        _overwrite(self.inputs, inputs)
        self.position.zero_()
        for _ in range(self.num_steps):
            self.replay()
        return trees.map(torch.clone, self.carry), trees.map(torch.clone, self.outs)

    def _step_in_place(self, carry: Tree, inputs: Tree, position: Tensor) -> Tree:
        now = trees.map(lambda leaf: leaf.index_select(0, position)[0], inputs)
        with torch.autocast(position.device.type, self.precision, enabled=self.precision != torch.float32):
            after, out = self.step(carry, *now)
        _overwrite(carry, after)
        return out

    def _advance(self) -> None:
        out = self.compiled(self.carry, self.inputs, self.position)
        if self.outs is None:
            self.outs = trees.map(lambda leaf: leaf.new_empty(self.num_steps, *leaf.shape), out)
        trees.map(lambda rows, leaf: rows.index_copy_(0, self.position, leaf[None]), self.outs, out)
        self.position.add_(1)

    def _captured(self) -> Callable[[], None]:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self.position.zero_()
                self._advance()
        torch.cuda.current_stream().wait_stream(stream)
        self.position.zero_()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._advance()
        return graph.replay


def _overwrite(static: Tree, values: Tree) -> None:
    trees.map(lambda old, new: old.copy_(new), static, values)
