"""Compress the messages between the server and the members: settings, and verbs that use them.

C. Hardy, E. Le Merrer, B. Sericola, "MD-GAN: Multi-Discriminator Generative Adversarial Networks
for Distributed Datasets", IPDPS 2019, section VII-2, suggests to compress generated images and
feedback. Error feedback follows F. Seide et al., "1-bit stochastic gradient descent and its
application to data-parallel distributed training of speech DNNs", Interspeech 2014.

Members remember what compression removed from their last message to the server, and add it to the
next one. This memory is a part of the strategy's state, with one row per member.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from remuda.engines.base import Engine, factors, weighted_sum
from remuda.errors import UserError
from remuda.strategies.base import Strategy
from remuda.tensors import trees
from remuda.tensors.codecs import COARSE, Compressor
from remuda.tensors.trees import Tree

CodecName = Literal["none", "int16", "int8", "int4", "sign", "top-k"]


@dataclass(frozen=True, kw_only=True)
class Compressing(Strategy):
    """A strategy whose server and members can compress what they send to each other."""

    compress_down: CodecName = "none"  # messages from the server to the members
    compress_up: CodecName = "none"  # messages from the members to the server
    error_feedback: bool = False  # members add what compress_up removes to their next message

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.error_feedback and self.compress_up == "none":
            raise UserError(
                "strategy.error_feedback needs compressed messages to the server: set "
                "strategy.compress_up, or leave strategy.error_feedback at false"
            )
        self.refuse_coarse("compress_down")

    def refuse_coarse(self, name: str) -> None:
        """Raise if this message is compressed with a codec that suits only gradients."""
        if getattr(self, name) in COARSE:
            raise UserError(
                f"strategy.{name}={getattr(self, name)} would destroy most pixels or weights: use "
                "int16, int8 or int4"
            )

    @property
    def down(self) -> Compressor:
        """The compressor of messages to the members."""
        return Compressor(self.compress_down)

    @property
    def up(self) -> Compressor:
        """The compressor of messages to the server."""
        return Compressor(self.compress_up)

    def new_memory(self, message: Tree) -> Tree:
        """Return an empty memory for messages of this shape; no memory without error feedback."""
        return trees.map(torch.zeros_like, message) if self.error_feedback else ()

    def scatter(self, engine: Engine, fn: Callable[..., Tree], *server: Any) -> Tree:
        """Run the verb ``scatter`` with compressed rows."""
        sent = engine.scatter(lambda *server: self.down.encode(fn(*server)), *server)
        return self.down.decode(sent)

    def gather(
        self,
        engine: Engine,
        fn: Callable[..., Tree],
        server: Any,
        rows: Tree,
        memory: Tree,
        *others: Tree,  # rows that are not compressed
    ) -> tuple[Any, Tree]:
        """Run the verb ``gather`` with compressed rows; return the server's state and the memory.

        With error feedback, the message is the sum of the rows and the memory. The difference
        between the message and what the server receives is the new memory.
        """
        message = trees.map(torch.add, rows, memory) if self.error_feedback else rows
        sent = self.up.encode(message)
        if self.error_feedback:
            memory = trees.map(_lost, message, self.up.decode(sent))

        def receive(server: Any, sent: Tree, *others: Tree) -> Tree:
            return fn(server, self.up.decode(sent), *others)

        return engine.gather(receive, server, sent, *others), memory

    def mean(self, engine: Engine, rows: Tree, weights: Tensor, memory: Tree) -> tuple[Tree, Tree]:
        """Run the verb ``mean``, through the server if rows are compressed.

        Return the means and the memory. All leaves are floating-point numbers.
        """
        if self.compress_up == self.compress_down == "none":
            return engine.mean(rows, weights), memory

        def average(_: Any, rows: Tree) -> Tree:
            return trees.map(lambda leaf: _weighted_mean(leaf, weights), rows)

        def repeat(mean: Tree) -> Tree:
            return trees.map(lambda leaf: leaf.expand(engine.size, *leaf.shape).contiguous(), mean)

        mean, memory = self.gather(engine, average, (), rows, memory)
        return self.scatter(engine, repeat, mean), memory


def take(
    engine: Engine, compressor: Compressor, rows: Tree, others: Tree, source: Tensor
) -> tuple[Tree, Tree]:
    """Run the verb ``take`` with compressed rows, and with others that are not compressed.

    A member that takes its own row keeps its exact numbers. The source has the shape (size,).
    """
    sent, others = engine.take((compressor.encode(rows), others), source)
    if compressor.codec == "none":
        return sent, others
    members = torch.tensor(list(engine.members))
    stays = (source.cpu()[members] == members).to(engine.device)
    return engine.map(trees.where, stays, rows, compressor.decode(sent)), others


def _lost(message: Tensor, received: Tensor) -> Tensor:
    """Return what compression removed. A diverged message must not stay in the memory."""
    lost = message - received
    return torch.where(lost.isfinite(), lost, 0.0)


def _weighted_mean(leaf: Tensor, weights: Tensor) -> Tensor:
    """Return the mean of rows. A weight of 0 also excludes rows that have diverged."""
    weights = weights.to(leaf.device)
    terms, _ = factors(weights, torch.float64)
    is_sender = (weights > 0).reshape(-1, *[1] * (leaf.ndim - 1))
    return weighted_sum(torch.where(is_sender, leaf, 0.0), terms, torch.float64).to(leaf.dtype)
