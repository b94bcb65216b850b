"""Class-parallel: one pair per label, trained independently.

M. Lupo Pasini, V. Gabbi, J. Yin, S. Perotto, N. Laanait, "Scalable balanced training of conditional
generative adversarial neural networks on image data", 2021 (DC-CGAN), and M. Lupo Pasini, J. Yin,
"Stable parallel training of Wasserstein conditional generative adversarial neural networks"
(W-CGAN).

    images of label 0 -> [G0, D0]
    images of label 1 -> [G1, D1]                   no messages
    ...
    sample: draw a label y from p(y), then call G_y (equation 5 of the first paper, 8 of the second)
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from remuda.data.batches import Batch
from remuda.engines.base import Engine
from remuda.errors import UserError
from remuda.gan import GAN, Pair
from remuda.strategies.base import Strategy
from remuda.strategies.context import Context, Metrics


@dataclass(frozen=True, kw_only=True)
class ClassParallel(Strategy):
    """One pair for each class; row y of the state is the pair of label y."""

    partitions: ClassVar[tuple[str, ...]] = ("class",)

    def num_members(self, requested: int, num_classes: int) -> int:
        if requested > num_classes:
            raise UserError(
                f"run.members={requested} is more than the data's {num_classes} classes, but "
                "class-parallel trains one member per class: leave run.members at 0"
            )
        return requested or num_classes

    def num_labels(self, gan: GAN, num_members: int) -> int:
        return num_members

    def init(self, context: Context, engine: Engine) -> Pair:
        return self.new_pairs(context, engine)

    def round(
        self, context: Context, engine: Engine, state: Pair, real: Batch, t: int
    ) -> tuple[Pair, Metrics]:
        return self.train_pairs(context, engine, state, real, t)

    def authors(self, engine: Engine, state: Pair, noise: Tensor, labels: Tensor) -> Tensor:
        return labels
