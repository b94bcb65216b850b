"""What a strategy is: the settings of one paper's method, and pure functions from a round's state to the next."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
from torch import Tensor

from remuda.data.batches import Batch
from remuda.data.images import to_unit
from remuda.engines.base import Engine, Pieces, Scan
from remuda.errors import UserError
from remuda.gan import GAN, LOSSES, Adam, Pair
from remuda.networks import Networks
from remuda.population import derangement
from remuda.tensors import random
from remuda.tensors.functions import Partial
from remuda.tensors.trees import Tree

Metrics = dict[str, Tensor]  # each (members hosted here,)
# From images (n, C, H, W) in [-1, 1] to features (n, d).
FeatureExtractor = Callable[[Tensor], Tensor]


def pixels(images: Tensor) -> Tensor:
    """Return the pixels of images as their features."""
    return images.flatten(1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Context:
    """Everything that a strategy needs from outside."""

    gan: GAN
    seed: int
    shares: tuple[int, ...] = ()  # images of each member; empty if they do not matter
    features: FeatureExtractor = pixels  # what images are compared by


class TrafficPlan(NamedTuple):
    """The settings that decide how much MD-GAN and FL-GAN send."""

    num_fake_batches: int = 1  # batches that MD-GAN's server generates in an iteration
    epochs: int = 1  # local epochs between two swaps or two averages
    swaps: bool = True  # whether discriminators are swapped at all
    epochs_per_round: int = 1  # local epochs in a round


class Mixture(NamedTuple):
    """The mixture of generators of one cell's neighbourhood."""

    cell: int
    row: int
    column: int
    weights: dict[int, float]  # by cell, the cell itself first
    distance: float  # from real images, as of the state's round
    is_alive: bool
    is_best: bool  # whether the model samples from this mixture


@dataclass(frozen=True, kw_only=True)
class Strategy(ABC):
    """The settings of a method, and pure functions from a round's state to the next.

    The fields are the ``strategy`` section of a configuration; the ones below are common to all
    strategies. ``prepare`` returns the context that all other methods take. ``init`` and ``round``
    are all that a loop needs; a strategy keeps nothing between rounds. Rounds count from 1.
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

    on_failure: ClassVar[Literal["drop", "move"]] = (
        "move"  # of members' hosts: go on without them, or move them
    )
    partitions: ClassVar[
        tuple[str, ...]
    ]  # ways to divide the data that make sense; data.partition = "auto": the first
    # Speed-ups that the method's paper reports: name of the population -> (cores, speed-up).
    paper_speedups: ClassVar[dict[str, tuple[int, float]]] = {}

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

    def prepare(
        self,
        networks: Networks,
        shape: tuple[int, ...],
        num_classes: int,
        seed: int,
        shares: Sequence[int] = (),
        features: FeatureExtractor | None = None,
    ) -> Context:
        """Return the context for networks, images of this shape, and a seed for all random draws.

        ``shares`` holds the number of images of each member. ``features`` maps images to what they
        are compared by; by default their pixels.
        """
        context = Context(
            gan=self.build_gan(networks, shape, num_classes),
            seed=seed,
            shares=tuple(shares),
            features=pixels if features is None else features,
        )
        self.check(context)
        return context

    def build_gan(self, networks: Networks, shape: tuple[int, ...], num_classes: int) -> GAN:
        """Return the GAN that each member trains."""
        lipschitz = self.lipschitz
        if lipschitz == "auto":
            lipschitz = "penalty" if LOSSES[self.loss].needs_lipschitz else "none"
        return GAN(
            networks=networks,
            shape=shape,
            num_classes=num_classes,
            loss=LOSSES[self.loss],
            generator_optimizer=Adam(self.generator_lr, *self.generator_betas),
            discriminator_optimizer=Adam(self.discriminator_lr, *self.discriminator_betas),
            lipschitz=lipschitz,
            clip=self.clip,
            penalty=self.penalty,
            real_target=1.0 - self.label_smoothing,
            ema=self.ema,
            shift=self.shift,
            cutout=self.cutout,
        )

    def check(self, context: Context) -> None:
        """Raise a UserError if the settings do not suit the networks or the images."""
        if (self.shift or self.cutout) and context.gan.shape[1:] == (1, 1):
            raise UserError(
                "strategy.shift and strategy.cutout are for images, not for points: leave them at 0"
            )

    @property
    def grid(self) -> tuple[int, int] | None:
        """Rows and columns, where members have places on a torus."""
        return None

    @property
    def needs_features(self) -> bool:
        """Whether images should be compared by the features of a network, not by their pixels."""
        return False

    @abstractmethod
    def num_members(self, requested: int, num_classes: int) -> int:
        """The size of the population, or a UserError where the request cannot be met; requested 0 = the natural one."""

    def num_labels(self, gan: GAN, num_members: int) -> int:
        """Return how many labels the trained model accepts; 0 if it does not know labels."""
        return gan.num_classes if gan.networks.conditional else 0

    def batches_per_round(self, images_per_member: float) -> int:
        """Batches of real data that a member uses in a round."""
        steps = self.steps_per_round
        if steps == 0:
            steps = -(-images_per_member // (self.batch_size * self.discriminator_steps))
        return self.batches_for(int(steps))

    def steps_in(self, num_batches: int) -> int:
        """Return the generator updates that this many batches of real data make."""
        return num_batches // self.discriminator_steps

    def batches_for(self, steps: int) -> int:
        """Return the batches of real data for this many generator updates."""
        return steps * self.discriminator_steps

    def grow(self, times: int, members: int) -> tuple[Self, int]:
        """Return the strategy and ``run.members`` of a population ``times`` as large.

        Where ``run.members`` is 0, the population has ``times`` members.
        """
        return self, times * max(1, members)

    def exchange_table(self, size: int, seed: int) -> Tensor:
        """Return whose rows each member takes in an exchange, (size, K)."""
        everyone = torch.ones(size, dtype=torch.bool)
        return derangement(random.key(seed, "swap", 1), everyone)[:, None]

    def traffic_plan(self, num_workers: int) -> TrafficPlan:
        """Return what MD-GAN and FL-GAN would send with this strategy's settings."""
        return TrafficPlan()

    @abstractmethod
    def init(self, context: Context, engine: Engine) -> Any:
        """The state before the first round."""

    @abstractmethod
    def round(
        self, context: Context, engine: Engine, state: Any, real: Batch, t: int
    ) -> tuple[Any, Metrics]:
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
    def generate(self, context: Context, state: Any, noise: Tensor, labels: Tensor) -> Tensor:
        """Images (n, C, H, W) in [-1, 1] from the whole model; state holds all members."""

    # Mixtures of generators, for strategies that have them.

    def mixtures(self, state: Any) -> list[Mixture]:
        """Return the mixture of every cell, in the order of the cells."""
        raise self._no_mixtures()

    def choose_mixture(self, state: Any, cell: int) -> Any:
        """Return the state whose model samples from this cell's mixture."""
        raise self._no_mixtures()

    def evolve_mixtures(
        self,
        context: Context,
        state: Any,
        draw_real: Callable[[int], Batch],
        t: int,
        steps: int,
    ) -> tuple[list[float], Any]:
        """Run ``steps`` steps of the mixtures' evolution after round t, on fresh samples.

        ``draw_real(n)`` returns n batches of every cell's real data. The result holds every
        mixture's distance from the real images before the first step, and the state after the last.
        """
        raise self._no_mixtures()

    def _no_mixtures(self) -> UserError:
        return UserError(
            "only runs of the strategy cellular have mixtures: train one, "
            "for instance cellular-digits"
        )

    # What strategies of pairs share.

    def new_pairs(self, context: Context, engine: Engine) -> Tree:
        """Return a new pair for every member."""
        seed = context.seed
        return engine.create(lambda member: context.gan.init(random.key(seed, "init", member)))

    def alike(self, context: Context, member: int, first: Pair) -> Pair:
        """The first pair's weights with the member's own streams of dropout masks."""
        own = context.gan.init(random.key(context.seed, "init", member))
        return first._replace(
            generator=first.generator._replace(buffers=own.generator.buffers),
            discriminator=first.discriminator._replace(buffers=own.discriminator.buffers),
        )

    def train_pairs(
        self, context: Context, engine: Engine, pairs: Tree, real: Batch, t: int
    ) -> tuple[Tree, Metrics]:
        """Every member trains its own pair on its own batches."""
        steps = real.labels.shape[1] // self.discriminator_steps
        images, labels = (leaf.unflatten(1, (steps, self.discriminator_steps)) for leaf in real)
        keys = random.keys(context.seed, "steps", engine.members, t, device=engine.device)
        latent = context.gan.networks.latent
        noise = engine.map(lambda key: random.normal(key, (*labels.shape[1:], latent)), keys)
        update_keys = random.fold(
            keys[:, None, None],
            torch.arange(real.labels.shape[1], device=engine.device).reshape(1, steps, -1),
        )
        pieces = None
        if self.discriminator_steps > 1:
            pieces = Pieces(
                Partial(self.train_discriminator, context), Partial(self.train_generator, context)
            )
        step = Scan(Partial(self.train_pair, context), pieces)
        pairs, losses = engine.map(step, pairs, images, labels, noise, update_keys)
        return pairs, {name: values.mean(1) for name, values in losses.items()}

    def train_pair(
        self,
        context: Context,
        pair: Pair,
        images: Tensor,
        labels: Tensor,
        noise: Tensor,
        keys: Tensor,
    ) -> tuple[Pair, Metrics]:
        return context.gan.step(pair, to_unit(images), labels, noise, keys)

    def train_discriminator(
        self,
        context: Context,
        pair: Pair,
        images: Tensor,
        labels: Tensor,
        noise: Tensor,
        key: Tensor,
    ) -> tuple[Pair, Metrics]:
        return context.gan.discriminator_step(pair, to_unit(images), labels, noise, key)

    def train_generator(
        self,
        context: Context,
        pair: Pair,
        images: Tensor,
        labels: Tensor,
        noise: Tensor,
        key: Tensor,
    ) -> tuple[Pair, Metrics]:
        return context.gan.generator_step(pair, labels, noise)
