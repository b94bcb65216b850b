"""Class-parallel: one pair per label. Pairs are independent, or share groups of layers.

M. Lupo Pasini, V. Gabbi, J. Yin, S. Perotto, N. Laanait, "Scalable balanced training of conditional
generative adversarial neural networks on image data", 2021 (DC-CGAN), and M. Lupo Pasini, J. Yin,
"Stable parallel training of Wasserstein conditional generative adversarial neural networks"
(W-CGAN).

    images of label 0 -> [G0, D0]
    images of label 1 -> [G1, D1]                   no messages, unless they share layers
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
from remuda.strategies.context import Context, Metrics
from remuda.strategies.sharing import SharedPairs, Sharing
from remuda.tensors.trees import Tree

State = Pair | SharedPairs


@dataclass(frozen=True, kw_only=True)
class ClassParallel(Sharing):
    """One pair for each class; row y of the state belongs to label y."""

    partitions: ClassVar[tuple[str, ...]] = ("class",)

    def num_members(self, requested: int, num_classes: int) -> int:
        if requested > num_classes:
            raise UserError(
                f"run.members={requested} is more than the data's {num_classes} classes, but "
                f"class-parallel trains one member per class: use at most {num_classes}, or data "
                "with more classes"
            )
        size = requested or num_classes
        self.relatives(size)  # raises if a family has an unknown member
        return size

    def num_labels(self, gan: GAN, num_members: int) -> int:
        return num_members

    def init(self, context: Context, engine: Engine) -> State:
        if self.is_sharing:
            return self.init_shared(context, engine)
        return self.new_pairs(context, engine)

    def round(
        self, context: Context, engine: Engine, state: State, real: Batch, t: int
    ) -> tuple[State, Metrics]:
        if isinstance(state, Pair):
            return self.train_pairs(context, engine, state, real, t)
        if self.share_every == 1:
            return self.share_gradients(context, engine, state, real, t)
        return self.share_tensors(context, engine, state, real, t)

    def rows(self, state: State) -> Tree:
        return state if isinstance(state, Pair) else state.own

    def with_rows(self, state: State, rows: Tree) -> State:
        return rows if isinstance(state, Pair) else state._replace(own=rows)

    def resize(self, old_size: int, size: int) -> list[int | None]:
        """Keep all members, and add one for each class that joins.

        An independent pair starts as in ``init``. If members share layers, a new one copies the
        other layers of the first member of its family, or else of any member, because new layers
        would not fit trained ones. A member cannot change its family later, because then the
        family would no longer have the same layers.
        """
        if size < old_size:
            raise UserError(
                f"this run cannot continue with {size} of its {old_size} members, because each of "
                "them trains its own class: leave run.members as it was, and resume without "
                "--members"
            )
        if not self.is_sharing:
            return [row if row < old_size else None for row in range(size)]
        if self.families and (new := self.unlisted(old_size, size)):
            raise UserError(
                f"strategy.families does not contain all new classes ({', '.join(map(str, new))} "
                "missing): in config.toml of the run, add each of them to a family, or add a "
                f"family such as [{new[0]}] for a class that shares only what all classes share, "
                "and resume again"
            )
        return [*range(old_size), *(row % old_size for row in self.relatives(size)[old_size:])]

    def authors(self, engine: Engine, state: State, noise: Tensor, labels: Tensor) -> Tensor:
        return labels

    def generators(self, engine: Engine, state: State) -> Pair:
        return state if isinstance(state, Pair) else self.whole_pairs(engine, state)
