"""What a strategy is: the settings of one paper's method, and pure functions from a round's state to the next."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from remuda.data.batches import Batch
from remuda.data.images import to_unit
from remuda.engines.base import Engine, Pieces, Scan
from remuda.errors import UserError
from remuda.gan import GAN, LOSSES, Adam, Pair
from remuda.networks import Networks
from remuda.tensors import random
from remuda.tensors.trees import Tree

Metrics = dict[str, Tensor]  # each (members hosted here,)
Look = Callable[[Tensor], Tensor]  # from images (n, C, H, W) in [-1, 1] to features (n, d)


@dataclass(frozen=True, kw_only=True)
class Strategy(ABC):
    """Settings are fields, the ``strategy`` section of a configuration; these are common to all strategies.

    ``bind`` gives a strategy its networks and seed. After that ``init`` and ``round`` are all a loop needs; a strategy
    keeps nothing between rounds. Rounds count from 1.
    """

    batch_size: int = 64  # images a member sees in one update, >= 1
    steps_per_round: int = (
        0  # generator updates in a round; 0 = one pass over the average share of the data
    )
    discriminator_steps: int = 1  # discriminator updates per generator update, >= 1
    loss: Literal["non-saturating", "minimax", "least-squares", "wasserstein", "hinge"] = (
        "non-saturating"
    )
    lipschitz: Literal["auto", "none", "clip", "penalty", "spectral"] = (
        "auto"  # auto: penalty if wasserstein, or none
    )
    clip: float = 0.01  # clip: bound of the critic's weights, > 0
    penalty: float = 10.0  # penalty: weight of the gradient penalty, > 0
    shift: float = 0.0  # discriminators see images, real and fake, shifted at random by up to this part of a side, < 1
    cutout: float = (
        0.0  # and with a square cut out at random, whose side is this part of the image's, < 1
    )
    label_smoothing: float = 0.0  # real images count as 1 minus this, 0 <= s < 1
    generator_lr: float = 2e-4  # Adam, > 0
    discriminator_lr: float = 2e-4
    generator_betas: tuple[float, float] = (0.5, 0.999)
    discriminator_betas: tuple[float, float] = (0.5, 0.999)
    ema: float = 0.0  # decay of the moving average of the generator that is sampled; 0 = sample the generator itself

    gan: GAN = field(init=False, repr=False, compare=False)  # given by bind
    seed: int = field(init=False, repr=False, compare=False)
    share_sizes: tuple[int, ...] = field(
        init=False, repr=False, compare=False
    )  # images of each member, if known
    look: Look = field(init=False, repr=False, compare=False)  # by what images are compared

    on_failure: ClassVar[Literal["drop", "move"]] = (
        "move"  # of members' hosts: go on without them, or move them
    )
    partitions: ClassVar[
        tuple[str, ...]
    ]  # ways to divide the data that make sense; data.partition = "auto": the first

    def __post_init__(self):
        for name in ("batch_size", "discriminator_steps"):
            if getattr(self, name) < 1:
                raise UserError(f"strategy.{name} must be at least 1, not {getattr(self, name)}")
        for name in ("clip", "penalty", "generator_lr", "discriminator_lr"):
            if not getattr(self, name) > 0:
                raise UserError(f"strategy.{name} must be above 0, not {getattr(self, name)}")
        for name in ("shift", "cutout", "label_smoothing", "ema"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"strategy.{name} must be in [0, 1), not {getattr(self, name)}")
        for name in ("generator_betas", "discriminator_betas"):
            if not all(0 <= beta < 1 for beta in getattr(self, name)):
                raise UserError(
                    f"strategy.{name} must be two numbers in [0, 1), not {list(getattr(self, name))}"
                )
        if self.steps_per_round < 0:
            raise UserError(
                f"strategy.steps_per_round must be at least 0, not {self.steps_per_round}"
            )
        loss = LOSSES[self.loss]
        if self.label_smoothing and not loss.has_targets:
            raise UserError(
                f"strategy.label_smoothing has no meaning for the {self.loss} loss: leave it at 0"
            )
        if self.lipschitz == "none" and loss.needs_lipschitz:
            raise UserError(
                f"the {self.loss} loss needs a Lipschitz critic: set strategy.lipschitz to clip, penalty or spectral"
            )

    def bind(
        self,
        networks: Networks,
        shape: tuple[int, ...],
        num_classes: int,
        seed: int,
        share_sizes: Sequence[int] = (),
        look: Look | None = None,
    ) -> Self:
        """This strategy with networks for images of that shape, all its draws made from that seed."""
        lipschitz = self.lipschitz
        if lipschitz == "auto":
            lipschitz = "penalty" if LOSSES[self.loss].needs_lipschitz else "none"
        if (self.shift or self.cutout) and shape[1:] == (1, 1):
            raise UserError(
                "strategy.shift and strategy.cutout are for images, not for points: leave them at 0"
            )
        generator_betas, discriminator_betas = self.generator_betas, self.discriminator_betas
        gan = GAN(
            networks=networks,
            shape=shape,
            num_classes=num_classes,
            loss=LOSSES[self.loss],
            generator_optimizer=Adam(self.generator_lr, *generator_betas),
            discriminator_optimizer=Adam(self.discriminator_lr, *discriminator_betas),
            lipschitz=lipschitz,
            clip=self.clip,
            penalty=self.penalty,
            real_target=1.0 - self.label_smoothing,
            ema=self.ema,
            shift=self.shift,
            cutout=self.cutout,
        )
        bound = copy.copy(self)
        object.__setattr__(bound, "gan", gan)
        object.__setattr__(bound, "seed", seed)
        object.__setattr__(bound, "share_sizes", tuple(share_sizes))
        object.__setattr__(bound, "look", look or _pixels)
        return bound

    @property
    def grid(self) -> tuple[int, int] | None:
        """Rows and columns, where members have places on a torus."""
        return None

    @property
    def wants_look(self) -> bool:
        """Whether images should be compared by the features of a network, not by their pixels."""
        return False

    @abstractmethod
    def num_members(self, requested: int, num_classes: int) -> int:
        """The size of the population, or a UserError where the request cannot be met; requested 0 = the natural one."""

    @abstractmethod
    def num_labels(self, num_members: int, num_classes: int) -> int:
        """How many labels the trained model can be asked for; 0 where it does not know labels."""

    def batches_per_round(self, images_per_member: float) -> int:
        """Batches of real data that a member uses in a round."""
        steps = self.steps_per_round
        if steps == 0:
            steps = -(-images_per_member // (self.batch_size * self.discriminator_steps))
        return int(steps) * self.discriminator_steps

    def steps_in(self, num_batches: int) -> int:
        """Generator updates that so many batches of real data make."""
        return num_batches // self.discriminator_steps

    @abstractmethod
    def init(self, engine: Engine) -> Any:
        """The state before the first round."""

    @abstractmethod
    def round(self, engine: Engine, state: Any, real: Batch, t: int) -> tuple[Any, Metrics]:
        """The state after round t, and per member what to report of it."""

    def rows(self, state: Any) -> Tree:
        """The part of a state that is rows; the rest is the server's."""
        return state

    def with_rows(self, state: Any, rows: Tree) -> Any:
        """A state with other rows."""
        return rows

    def resize(self, state: Any, size: int) -> Any:
        """The state of the whole herd for another number of members: some come late, or are not there any more."""
        raise UserError(
            f"this strategy cannot go on with {size} members: leave run.members as it was"
        )

    @abstractmethod
    def generate(self, state: Any, noise: Tensor, labels: Tensor) -> Tensor:
        """Images (n, C, H, W) in [-1, 1] from the whole model; state holds all members."""

    # What strategies of pairs share.

    def new_pairs(self, engine: Engine) -> Tree:
        return engine.create(lambda member: self.gan.init(random.key(self.seed, "init", member)))

    def alike(self, member: int, first: Pair) -> Pair:
        """The first pair's weights with the member's own streams of dropout masks."""
        own = self.gan.init(random.key(self.seed, "init", member))
        return first._replace(
            generator=first.generator._replace(buffers=own.generator.buffers),
            discriminator=first.discriminator._replace(buffers=own.discriminator.buffers),
        )

    def train_pairs(self, engine: Engine, pairs: Tree, real: Batch, t: int) -> tuple[Tree, Metrics]:
        """Every member trains its own pair on its own batches."""
        steps = real.labels.shape[1] // self.discriminator_steps
        images, labels = (leaf.unflatten(1, (steps, self.discriminator_steps)) for leaf in real)
        keys = random.keys(self.seed, "steps", engine.members, t, device=engine.device)
        noise = engine.map(
            lambda key: random.normal(key, (*labels.shape[1:], self.gan.networks.latent)), keys
        )
        update_keys = random.fold(
            keys[:, None, None],
            torch.arange(real.labels.shape[1], device=engine.device).reshape(1, steps, -1),
        )
        pieces = (
            Pieces(self.train_discriminator, self.train_generator)
            if self.discriminator_steps > 1
            else None
        )
        pairs, losses = engine.map(
            Scan(self.train_pair, pieces), pairs, images, labels, noise, update_keys
        )
        return pairs, {name: values.mean(1) for name, values in losses.items()}

    def train_pair(
        self, pair: Pair, images: Tensor, labels: Tensor, noise: Tensor, keys: Tensor
    ) -> tuple[Pair, Metrics]:
        return self.gan.step(pair, to_unit(images), labels, noise, keys)

    def train_discriminator(
        self, pair: Pair, images: Tensor, labels: Tensor, noise: Tensor, key: Tensor
    ) -> tuple[Pair, Metrics]:
        return self.gan.discriminator_step(pair, to_unit(images), labels, noise, key)

    def train_generator(
        self, pair: Pair, images: Tensor, labels: Tensor, noise: Tensor, key: Tensor
    ) -> tuple[Pair, Metrics]:
        return self.gan.generator_step(pair, labels, noise)


def _pixels(images: Tensor) -> Tensor:
    return images.flatten(1)
