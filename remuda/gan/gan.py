"""Train a generator and a discriminator against each other, and sample.

All methods are pure functions. This module knows nothing about populations.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from remuda.gan import players
from remuda.gan.augment import adapted
from remuda.gan.definition import Definition
from remuda.gan.lipschitz import clip
from remuda.gan.objective import Critic, GeneratorLoss
from remuda.gan.overrides import NO_OVERRIDES, Overrides
from remuda.gan.players import Labelled, Pair, Player, apply, apply_to_both, sampled_tensors
from remuda.gan.stacking import Stacking, try_stacking
from remuda.tensors import calculus

Gradients = dict[str, Tensor]
Pullback = Callable[[Tensor], Gradients]  # maps gradients of images to gradients of weights


@dataclass(eq=False, kw_only=True)
class GAN(Definition):
    """Train a pair of networks.

    ``real`` and ``fakes`` are images (b, C, H, W) in [-1, 1], ``labels`` (b,), ``noise``
    (b, latent). All other random draws come from ``key``, a scalar (see remuda.tensors.random).
    """

    @cached_property
    def stacking(self) -> Stacking:
        """How well ``vmap`` trains several pairs at once, found by a trial."""
        return try_stacking(self, self.step)

    @cached_property
    def stacked_losses(self) -> Stacking:
        """How well ``vmap`` computes the losses of several pairs, without training them."""

        def outputs(
            pair: Pair, real: Tensor, labels: Tensor, noise: Tensor, keys: Tensor
        ) -> Tensor:
            inputs = noise[0], labels[0]
            fakes, _ = apply(self.generator, *pair.generator[:2], *inputs)
            return apply(self.discriminator, *pair.discriminator[:2], fakes, labels[0])[0]

        # Penalties need the gradients of torch.func, which take almost a second to import.
        return self.stacking if self.objective.has_penalties else try_stacking(self, outputs)

    # Steps of a pair

    def step(
        self,
        pair: Pair,
        real: Tensor,
        labels: Tensor,
        noise: Tensor,
        keys: Tensor,
        overrides: Overrides = NO_OVERRIDES,
    ) -> tuple[Pair, dict[str, Tensor]]:
        """Update the discriminator K times, then the generator once.

        All tensors have a leading axis K. The generator is updated with the discriminator's last
        batch of fakes, so one forward pass through the generator serves both updates. The papers
        use the same two minibatches in a step.
        """
        generator, discriminator, average = pair
        losses = []
        for k in range(real.shape[0]):
            fakes, buffers, pull = self.generate(generator, noise[k], labels[k])
            generator = generator._replace(buffers=buffers)
            discriminator, loss = self.update_discriminator(
                discriminator, real[k], fakes, labels[k], keys[k], overrides=overrides
            )
            losses.append(loss)
        pair = Pair(generator, discriminator, average)
        last = real[-1], labels[-1]
        pair, metrics = self.update_generator(pair, fakes, pull, labels[-1], overrides, last)
        return pair, {"discriminator_loss": torch.stack(losses).mean(), **metrics}

    def discriminator_step(
        self,
        pair: Pair,
        real: Tensor,
        labels: Tensor,
        noise: Tensor,
        key: Tensor,
        overrides: Overrides = NO_OVERRIDES,
    ) -> tuple[Pair, dict[str, Tensor]]:
        """Run one of the discriminator updates in ``step``."""
        fakes, buffers, _ = self.generate(pair.generator, noise, labels)
        discriminator, loss = self.update_discriminator(
            pair.discriminator, real, fakes, labels, key, overrides=overrides
        )
        generator = pair.generator._replace(buffers=buffers)
        pair = pair._replace(generator=generator, discriminator=discriminator)
        return pair, {"discriminator_loss": loss}

    def generator_step(
        self,
        pair: Pair,
        real: Tensor,
        labels: Tensor,
        noise: Tensor,
        overrides: Overrides = NO_OVERRIDES,
    ) -> tuple[Pair, dict[str, Tensor]]:
        """Run the generator update in ``step``; it generates the last batch of fakes again."""
        fakes, _, pull = self.generate(pair.generator, noise, labels)
        return self.update_generator(pair, fakes, pull, labels, overrides, (real, labels))

    # Parts of a step

    def generate(
        self, generator: Player, noise: Tensor, labels: Tensor
    ) -> tuple[Tensor, dict[str, Tensor], Pullback]:
        """Return images, the generator's updated buffers, and the pullback.

        The pullback maps gradients with respect to the images to gradients with respect to the
        weights. Call it at most once.
        """
        return calculus.vjp(
            lambda params: apply(self.generator, params, generator.buffers, noise, labels),
            generator.params,
        )

    def update_discriminator(
        self,
        discriminator: Player,
        real: Tensor,
        fakes: Tensor,
        labels: Tensor,
        key: Tensor,
        fake_labels: Tensor | None = None,
        overrides: Overrides = NO_OVERRIDES,
    ) -> tuple[Player, Tensor]:
        """Return the discriminator after one update, and its loss before the update.

        Fakes have the labels of the real images unless ``fake_labels`` are given.
        """
        fake_labels = labels if fake_labels is None else fake_labels
        batches = (real, labels), (fakes, fake_labels)
        gradients, buffers, value = self.discriminator_gradients(
            discriminator, *batches, key, overrides
        )
        discriminator = discriminator._replace(buffers=buffers)
        return self.apply_to_discriminator(discriminator, gradients, overrides), value

    def discriminator_gradients(
        self,
        discriminator: Player,
        real: Labelled,
        fakes: Labelled,
        key: Tensor,
        overrides: Overrides = NO_OVERRIDES,
    ) -> tuple[Gradients, dict[str, Tensor], Tensor]:
        """Return the gradients of the discriminator's loss, its updated buffers, and the loss."""
        labels, fake_labels = real[1], fakes[1]

        def loss(params: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            modules, buffers = (self.discriminator, self.joint), discriminator.buffers
            on_real, on_fakes, buffers = apply_to_both(modules, params, buffers, real, fakes)
            value = self.objective.discriminator_loss(on_real, on_fakes, labels, fake_labels)
            if self.objective.has_penalties:
                critic = self.critic(params, buffers)
                penalties = self.objective.penalties(critic, real, fakes, key)
                value = value + overrides.scale_penalties(penalties)
            if self.ada_target:
                signs = self.objective.signs(on_real, on_fakes)
                buffers = adapted(buffers, signs, self.ada_target, self.ada_images)
            return value, buffers

        value, buffers, gradients = calculus.value_and_grad(loss, discriminator.params)
        return gradients, buffers, value

    def apply_to_discriminator(
        self, discriminator: Player, gradients: Gradients, overrides: Overrides = NO_OVERRIDES
    ) -> Player:
        """Return the discriminator after one step of its optimizer."""
        params, moments = self.discriminator_optimizer.step(
            discriminator.params,
            gradients,
            discriminator.moments,
            *overrides.for_discriminator(self.discriminator_optimizer),
        )
        if self.lipschitz == "clip":
            params = clip(params, self.clip)
        return discriminator._replace(params=params, moments=moments)

    def update_generator(
        self,
        pair: Pair,
        fakes: Tensor,
        pull: Pullback,
        labels: Tensor,
        overrides: Overrides = NO_OVERRIDES,
        real: Labelled | None = None,
    ) -> tuple[Pair, dict[str, Tensor]]:
        """Update the generator with the fakes it has generated, and update its moving average."""
        discriminator, feedback, loss = self.feedback(
            pair.discriminator, fakes, labels, overrides.loss, real
        )
        generator = self.apply_gradients(pair.generator, pull(feedback), overrides)
        average = self.update_average(pair.average, generator, overrides)
        return Pair(generator, discriminator, average), {"generator_loss": loss}

    def feedback(
        self,
        discriminator: Player,
        fakes: Tensor,
        labels: Tensor,
        generator_loss: GeneratorLoss | None = None,
        real: Labelled | None = None,
    ) -> tuple[Player, Tensor, Tensor]:
        """Return the discriminator, the gradient for every fake, and the generator's loss.

        The gradient is that of the generator's loss with respect to the fake image. In the
        discriminator, only the buffers change. Losses that pair images need ``real`` images, as
        many as fakes; other losses ignore them.
        """
        return self.feedback_and_outputs(discriminator, fakes, labels, generator_loss, real)[:3]

    def feedback_and_outputs(
        self,
        discriminator: Player,
        fakes: Tensor,
        labels: Tensor,
        generator_loss: GeneratorLoss | None = None,
        real: Labelled | None = None,
    ) -> tuple[Player, Tensor, Tensor, Tensor]:
        """Return what ``feedback`` returns, and the discriminator's output for every fake, (b,).

        An output is higher if the discriminator takes the image for a real one.
        """
        params, before, _ = discriminator
        on_real = None
        if self.objective.pairs(generator_loss):
            assert real is not None, "this loss compares fakes with real images"
            on_real, before = apply(self.discriminator, params, before, *real)

        def loss(images: Tensor) -> tuple[Tensor, tuple[dict[str, Tensor], Tensor]]:
            outputs, buffers = apply(self.discriminator, params, before, images, labels)
            value = self.objective.generator_loss(outputs, labels, on_real, generator_loss)
            return value, (buffers, self.objective.source(outputs))

        value, (buffers, outputs), feedback = calculus.value_and_grad(loss, fakes)
        return discriminator._replace(buffers=buffers), feedback, value, outputs

    def critic(self, params: dict[str, Tensor], buffers: dict[str, Tensor]) -> Critic:
        """Return the discriminator as a function of one or two batches that changes no buffers."""
        modules = self.discriminator, self.joint
        return lambda *batches: players.outputs_of(modules, params, buffers, *batches)

    def apply_gradients(
        self, generator: Player, gradients: Gradients, overrides: Overrides = NO_OVERRIDES
    ) -> Player:
        """Return the generator after one step of its optimizer."""
        params, moments = self.generator_optimizer.step(
            generator.params,
            gradients,
            generator.moments,
            *overrides.for_generator(self.generator_optimizer),
        )
        return generator._replace(params=params, moments=moments)

    def update_average(
        self,
        average: dict[str, Tensor],
        generator: Player,
        overrides: Overrides = NO_OVERRIDES,
    ) -> dict[str, Tensor]:
        """Return the moving average after the generator's update; without ema, it is empty."""
        weight = 1 - self.ema if overrides.ema_weight is None else overrides.ema_weight
        return players.update_average(average, generator, weight)

    def sample(self, pair: Pair, noise: Tensor, labels: Tensor) -> Tensor:
        """Return images for users: in evaluation mode, from the averaged weights if they exist."""
        with torch.no_grad():
            return apply(self.sampler, *sampled_tensors(pair), noise, labels)[0]
