"""Settings of strategies whose server combines messages from members that may lie.

C. Hardy, E. Le Merrer, B. Sericola, section VII-3 of the MD-GAN paper, asks what lying workers do
to a GAN. ``remuda.population.lies`` defines the lies, and ``remuda.population.aggregates`` the
defences.
"""

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from remuda.data.batches import Batch
from remuda.engines.base import Engine
from remuda.errors import UserError
from remuda.population.aggregates import most_liars, spare
from remuda.population.lies import LIES, draw_liars, flip_labels
from remuda.strategies.base import Strategy
from remuda.strategies.context import Context
from remuda.system.text import count
from remuda.tensors import trees
from remuda.tensors.trees import Tree

Lie = Literal["sign", "scaled", "noise", "collude", "constant", "labels"]
AggregateName = Literal[
    "mean", "median", "trimmed-mean", "krum", "geometric-median", "norm-clipped", "reputation"
]


@dataclass(frozen=True, kw_only=True)
class Distrust(Strategy, ABC):
    """How the server combines messages, and how many members send false ones."""

    aggregate: AggregateName = "mean"  # how the server combines the members' messages
    # Number of liars that the aggregate must withstand, >= 0; 0 = as many as it can.
    withstand: int = 0
    liars: int = 0  # members that lie, drawn from the seed, 0 <= liars < members
    lie: Lie = "sign"  # what liars send
    lie_scale: float = 10.0  # lie = scaled: the factor, finite and > 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_not_negative("withstand", "liars")
        if not 0 < self.lie_scale < float("inf"):
            raise UserError(
                f"strategy.lie_scale must be a finite number above 0, not {self.lie_scale}"
            )
        if self.withstand and self.aggregate == "mean":
            raise UserError(
                "strategy.withstand has no effect, because a mean withstands no liars: set "
                "strategy.aggregate, for instance to median"
            )

    def check(self, context: Context) -> None:
        super().check(context)
        if self.liars and self.lie == "labels" and not context.gan.networks.conditional:
            raise UserError(
                "strategy.lie=labels has no effect, because the networks ignore labels: choose "
                "another strategy.lie, or networks that use labels, such as acgan-mlp"
            )

    def check_liars(
        self,
        size: int,
        num_compared: int,
        *,
        remedy: str = "",
        enlarge: Callable[[int], str] = "run.members={}".format,
    ) -> None:
        """Raise a UserError if the aggregate cannot withstand liars among the members it compares.

        ``remedy`` is a setting with which the aggregate compares all ``size`` members, and
        ``enlarge`` returns the settings for a population of another size.
        """
        if self.liars >= size:
            raise UserError(
                f"strategy.liars={self.liars} leaves no honest member among "
                f"{count(size, 'member')}: set it to {size - 1} or less"
            )
        wanted, most = max(1, self.withstand), most_liars(self.aggregate, num_compared)
        if self.aggregate == "mean" or wanted <= most:
            return
        needed = 2 * wanted + spare(self.aggregate)
        advice = f"set {enlarge(needed)}"
        if remedy and wanted <= most_liars(self.aggregate, size):
            advice = f"set {remedy}"
        elif most:
            advice = f"set strategy.withstand={most}"
        elif remedy:
            advice += f" and {remedy}"
        raise UserError(
            f"strategy.aggregate={self.aggregate} needs {needed} messages to withstand "
            f"{count(wanted, 'liar')}, but it compares only {num_compared}: {advice}"
        )

    def liars_here(self, context: Context, engine: Engine) -> Tensor:
        """Return which members hosted here lie, (n,)."""
        liars = draw_liars(context.seed, engine.size + len(context.lost), self.liars)
        is_left = torch.ones(len(liars), dtype=torch.bool)
        is_left[list(context.lost)] = False
        return liars[is_left][list(engine.members)].to(engine.device)

    def with_false_labels(self, context: Context, engine: Engine, real: Batch) -> Batch:
        """Return the real data, with false labels if liars train with such labels."""
        if not (self.liars and self.lie == "labels"):
            return real
        liars = self.liars_here(context, engine)
        return real._replace(labels=flip_labels(real.labels, liars, context.gan.num_classes))

    @property
    def falsifies(self) -> bool:
        """Whether some members falsify what they send."""
        return self.liars > 0 and self.lie != "labels"

    def falsify(self, is_liar: Tensor, key: Tensor, message: Tensor) -> Tensor:
        """Return what one member sends instead of its honest message."""
        return torch.where(is_liar, LIES[self.lie](message, key, self.lie_scale), message)

    def without_free_rider(self, is_liar: Tensor, trained: Tree, before: Tree) -> Tree:
        """Return one member's networks after training; those of a free-rider do not change."""
        if self.lie != "constant":
            return trained
        return trees.where(is_liar, before, trained)
