"""All members on one device: verbs are indexing, ``map`` is one ``vmap`` or a loop."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from remuda import trees
from remuda.engines.base import Engine, Scan
from remuda.trees import Tree


class Stacked(Engine):
    """The population in one process.

    ``layout`` says how ``map`` treats the members: "vmap" runs them as one batch of networks, "loop" one after the
    other. On a CPU a loop is as fast for perceptrons and half as long for convolutions, so "auto" loops there.
    """

    def __init__(
        self,
        size: int,
        device: torch.device | str = "cpu",
        layout: Literal["auto", "loop", "vmap"] = "auto",
    ):
        self.size = size
        self.members = range(size)
        self.device = torch.device(device)
        self.looped = layout == "loop" or (layout == "auto" and self.device.type == "cpu")

    def map(self, fn: Callable[..., Tree], *rows: Tree) -> Tree:
        if self.looped:
            return trees.stack([fn(*trees.row(rows, i)) for i in range(len(self.members))])
        if isinstance(fn, Scan):
            carry, *inputs = rows
            by_step = trees.map(lambda leaf: leaf.transpose(0, 1), tuple(inputs))
            carry, outs = Scan(_batched(fn.step))(carry, *by_step)
            return carry, trees.map(lambda leaf: leaf.transpose(0, 1), outs)
        return _batched(fn)(*rows)

    def take(self, rows: Tree, source: Tensor) -> Tree:
        source = source.to(self.device)
        return trees.map(lambda leaf: leaf[source], rows)

    def mean(self, rows: Tree, weights: Tensor) -> Tree:
        share = (weights.double() / weights.double().sum()).to(self.device)

        def average(leaf: Tensor) -> Tensor:
            if not leaf.is_floating_point():
                return leaf.clone()
            return torch.einsum("n,n...->...", share, leaf.double()).to(leaf.dtype).expand_as(leaf).clone()

        return trees.map(average, rows)

    def scatter(self, fn: Callable[..., Tree], *server: Any) -> Tree:
        return fn(*server)

    def gather(self, fn: Callable[..., Tree], server: Any, *rows: Tree) -> Tree:
        return fn(server, *rows)


def _batched(fn: Callable[..., Tree]) -> Callable[..., Tree]:
    return torch.func.vmap(fn, randomness="error")  # draws come from keys; a global generator would break resume
