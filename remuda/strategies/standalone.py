"""Standalone: one pair trained on all the data, the baseline for the other strategies.

An unconditional pair is the DC-GAN, and a conditional pair is the DC-CGAN, of Lupo Pasini et al.
2021, "Scalable balanced training of conditional generative adversarial neural networks on image
data".

    data -> [G, D]                                              no messages
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from remuda.data.batches import Batch
from remuda.engines.base import Engine
from remuda.errors import UserError
from remuda.gan import Pair
from remuda.strategies.base import Strategy
from remuda.strategies.context import Context, Metrics


@dataclass(frozen=True, kw_only=True)
class Standalone(Strategy):
    """A single pair; the state is a pair with a leading axis of length 1."""

    partitions: ClassVar[tuple[str, ...]] = ("iid", "subset")  # iid: the member gets all data

    def num_members(self, requested: int, num_classes: int) -> int:
        if requested not in (0, 1):
            raise UserError(
                f"standalone trains one member, not {requested}: leave run.members at 0"
            )
        return 1

    def grow(self, times: int, members: int) -> tuple[Self, int]:
        raise UserError(
            "standalone trains one member, which cannot grow with the ranks: choose another recipe"
        )

    def init(self, context: Context, engine: Engine) -> Pair:
        return self.new_pairs(context, engine)

    def round(
        self, context: Context, engine: Engine, state: Pair, real: Batch, t: int
    ) -> tuple[Pair, Metrics]:
        return self.train_pairs(context, engine, state, real, t)

    def authors(self, engine: Engine, state: Pair, noise: Tensor, labels: Tensor) -> Tensor:
        return torch.zeros_like(labels)
