"""Swap the discriminators of MD-GAN's workers."""

from abc import ABC
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from remuda.engines.base import Engine
from remuda.errors import UserError
from remuda.gan import Player
from remuda.strategies.compression import CodecName, Compressing, take
from remuda.tensors import trees
from remuda.tensors.codecs import Compressor
from remuda.tensors.trees import Tree


@dataclass(frozen=True, kw_only=True)
class Swapping(Compressing, ABC):
    """A strategy whose members swap their discriminators."""

    swap_every: int = 1  # E in the paper: rounds between swaps of discriminators; 0 = never
    # What happens to Adam's moments in a swap: keep them on the worker, move them with D, or reset.
    swap_optimizer: Literal["keep", "carry", "reset"] = "keep"
    compress_across: CodecName = "none"  # weights of discriminators in a swap

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_not_negative("swap_every")
        self.refuse_coarse("compress_across")
        if self.compress_across != "none" and not self.swap_every:
            raise UserError(
                "strategy.compress_across has no effect without swaps: set strategy.swap_every, or "
                "leave strategy.compress_across at none"
            )

    @property
    def across(self) -> Compressor:
        """The compressor of discriminators' weights in a swap."""
        return Compressor(self.compress_across)

    def swap(self, engine: Engine, workers: Player, source: Tensor) -> Player:
        """Move discriminators to other workers. Only weights are compressed.

        A worker that keeps its discriminator keeps its moments, too.
        """
        params, buffers, moments = workers
        carried = moments if self.swap_optimizer == "carry" else ()
        params, (buffers, carried) = take(engine, self.across, params, (buffers, carried), source)
        if self.swap_optimizer == "reset":
            here = torch.tensor(list(engine.members))
            has_moved = (source.cpu()[here] != here).to(engine.device)
            moments = trees.map(
                lambda leaf: leaf.masked_fill(has_moved.reshape(-1, *[1] * (leaf.ndim - 1)), 0),
                moments,
            )
        return Player(params, buffers, carried or moments)

    def swap_facts(self, engine: Engine, source: Tensor) -> dict[str, Tree]:
        """Return whose discriminators the workers hosted here have received."""
        here = source[list(engine.members)].to(engine.device)
        return {"moved_from": {"members": here}}
