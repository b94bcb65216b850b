"""Create and train pairs, for all strategies whose members are pairs."""

from abc import ABC
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from remuda.data.batches import Batch
from remuda.data.images import to_unit
from remuda.engines.base import Engine, Pieces, Scan
from remuda.gan import Pair
from remuda.gan.overrides import NO_OVERRIDES
from remuda.strategies.context import Context, Metrics
from remuda.strategies.settings import Settings
from remuda.tensors import random, trees
from remuda.tensors.functions import Partial
from remuda.tensors.trees import Tree


class StepInputs(NamedTuple):
    """The inputs of one step of a pair, with K updates of the discriminator."""

    images: Tensor  # (K, b, C, H, W): real images as stored
    labels: Tensor  # (K, b)
    noise: Tensor  # (K, b, latent)
    keys: Tensor  # (K,)
    scheduled: dict[str, Tensor]  # (K, ...): values of Overrides; empty without a schedule


@dataclass(frozen=True, kw_only=True)
class PairTraining(Settings, ABC):
    """Create pairs, and train every pair on its own data."""

    def new_pairs(self, context: Context, engine: Engine) -> Tree:
        """Return a new pair for every member."""
        gan, seed = context.gan, context.seed
        return engine.create(lambda member: gan.init(random.key(seed, "init", member)))

    def first_pair(self, context: Context) -> Pair:
        """Return the new pair of member 0."""
        return context.gan.init(random.key(context.seed, "init", 0))

    def copy_pair(self, context: Context, first: Pair, member: int) -> Pair:
        """Return a copy of the first pair with the member's own random streams for dropout."""
        own = context.gan.init(random.key(context.seed, "init", member))
        return first._replace(
            generator=first.generator._replace(buffers=own.generator.buffers),
            discriminator=first.discriminator._replace(buffers=own.discriminator.buffers),
        )

    def train_pairs(
        self, context: Context, engine: Engine, pairs: Tree, real: Batch, t: int
    ) -> tuple[Tree, Metrics]:
        """Train every member's own pair on its own batches."""
        inputs = self.step_inputs(context, engine, real, t)
        pairs, losses = self.train_steps(context, engine, pairs, inputs)
        return pairs, trees.map(lambda x: x.mean(1), losses) | pairs.discriminator.metrics()

    def step_inputs(self, context: Context, engine: Engine, real: Batch, t: int) -> StepInputs:
        """Return the inputs of all steps in round t; all tensors have the axes (members, steps)."""
        num_batches, latent = real.labels.shape[1], context.gan.networks.latent
        # (members, batches, b, ...) -> (members, steps, discriminator steps, b, ...)
        shape = num_batches // self.discriminator_steps, self.discriminator_steps
        images, labels = (leaf.unflatten(1, shape) for leaf in real)
        keys = random.keys(context.seed, "steps", engine.members, t, device=engine.device)
        noise = engine.map(lambda key: random.normal(key, (*labels.shape[1:], latent)), keys)
        numbers = torch.arange(num_batches, device=engine.device).reshape(1, *shape)
        update_keys = random.fold(keys[:, None, None], numbers)
        scheduled = self.scheduled_rows(engine, t, shape)
        return StepInputs(images, labels, noise, update_keys, scheduled)

    def train_steps(
        self, context: Context, engine: Engine, pairs: Tree, inputs: StepInputs
    ) -> tuple[Tree, Metrics]:
        """Train every member's own pair for some steps; return the losses (members, steps)."""
        pieces = None
        if self.discriminator_steps > 1:
            pieces = Pieces(
                Partial(self.train_discriminator, context), Partial(self.train_generator, context)
            )
        step = Scan(Partial(self.train_pair, context), pieces)
        return engine.map(step, pairs, inputs)

    def train_pair(self, context: Context, pair: Pair, now: StepInputs) -> tuple[Pair, Metrics]:
        """Train one pair for one step; the tensors have a leading axis of discriminator steps."""
        overrides = NO_OVERRIDES._replace(**trees.row(now.scheduled, 0))
        images = to_unit(now.images)
        return context.gan.step(pair, images, now.labels, now.noise, now.keys, overrides)

    def train_discriminator(
        self, context: Context, pair: Pair, now: StepInputs
    ) -> tuple[Pair, Metrics]:
        """Run the part of ``train_pair`` that repeats: one discriminator update."""
        overrides = NO_OVERRIDES._replace(**now.scheduled)
        return context.gan.discriminator_step(
            pair, to_unit(now.images), now.labels, now.noise, now.keys, overrides
        )

    def train_generator(
        self, context: Context, pair: Pair, now: StepInputs
    ) -> tuple[Pair, Metrics]:
        """Run the last part of ``train_pair``: the generator update."""
        overrides = NO_OVERRIDES._replace(**now.scheduled)
        return context.gan.generator_step(
            pair, to_unit(now.images), now.labels, now.noise, overrides
        )

    def scheduled_rows(
        self, engine: Engine, t: int, shape: tuple[int, int], updates_per_step: int = 1
    ) -> dict[str, Tensor]:
        """Return the scheduled values of round t as rows, (members, steps, batches per step, ...).

        ``shape`` contains the numbers of steps and of batches per step.
        """
        values = self.scheduled(t, shape[0], updates_per_step=updates_per_step)
        axes = len(engine.members), *shape
        return {
            name: value.to(engine.device)[None, :, None].expand(*axes, *value.shape[1:])
            for name, value in values.items()
        }
