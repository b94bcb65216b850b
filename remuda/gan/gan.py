"""Initialise a generator and a discriminator, train them against each other, and sample.

All methods are pure functions. This module knows nothing about populations.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from remuda.gan import players
from remuda.gan.augment import Augmented, adapted
from remuda.gan.lipschitz import SpectralNorm, clip
from remuda.gan.losses import Loss
from remuda.gan.objective import Critic, GeneratorLoss, Objective
from remuda.gan.optimizers import Adam
from remuda.gan.overrides import NO_OVERRIDES, Overrides
from remuda.gan.players import Labelled, Pair, Player, apply, apply_to_both
from remuda.networks import Networks
from remuda.networks.batches import for_batches
from remuda.tensors import calculus

Gradients = dict[str, Tensor]
Pullback = Callable[[Tensor], Gradients]  # maps gradients of images to gradients of weights


@dataclass(eq=False, kw_only=True)
class GAN:
    """Define two networks and how they train.

    ``real`` and ``fakes`` are images (b, C, H, W) in [-1, 1], ``labels`` (b,), ``noise``
    (b, latent). All other random draws come from ``key``, a scalar (see remuda.tensors.random).
    """

    networks: Networks
    shape: tuple[int, ...]  # shape of one image, (C, H, W)
    num_classes: int
    loss: Loss
    generator_optimizer: Adam
    discriminator_optimizer: Adam
    lipschitz: str = "none"  # none, clip, penalty, spectral, spectral-both
    clip: float = 0.01  # clip: bound of the critic's weights
    penalty: float = 10.0  # penalty: weight of the gradient penalty
    r1: float = 0.0  # weight of the R1 penalty, at real images; 0 = none
    r2: float = 0.0  # weight of the R2 penalty, at fakes; 0 = none
    penalty_every: int = 1  # compute penalties on one in this many images of a batch
    real_target: float = 1.0  # label of real images; less than 1 under label smoothing
    ema: float = 0.0  # decay of the generator's moving average; 0 = none
    shift: float = 0.0  # largest shift of the discriminator's images, as a fraction of the side
    cutout: float = 0.0  # side of the square cut out of these images, as a fraction
    colour: float = 0.0  # strength of the random changes of their colours, 0 to 1
    ada_target: float = 0.0  # adaptive augmentation: target of E sign(D(x)); 0 = not adaptive
    ada_images: float = 500_000  # real images in which its probability can rise from 0 to 1

    objective: Objective = field(init=False, repr=False)
    # These modules only define the structure; the weights are always arguments.
    generator: nn.Module = field(init=False, repr=False)
    discriminator: nn.Module = field(init=False, repr=False)
    sampler: nn.Module = field(init=False, repr=False)  # the generator in evaluation mode
    # the discriminator for two batches in one pass; None if it supports only one
    joint: nn.Module | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.objective = Objective(
            loss=self.loss,
            auxiliary=self.networks.auxiliary,
            real_target=self.real_target,
            penalty=self.penalty if self.lipschitz == "penalty" else 0.0,
            r1=self.r1,
            r2=self.r2,
            penalty_every=self.penalty_every,
        )
        self.generator, self.discriminator = self.build_networks(0)
        self.sampler = copy.deepcopy(self.generator).eval()
        self.joint = for_batches(self.discriminator, 2)

    def build_networks(self, key: int) -> tuple[nn.Module, nn.Module]:
        """Return a generator and a discriminator whose weights are a function of the key."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(key)
            generator = self.networks.generator(self.shape, self.num_classes)
            discriminator = self.networks.discriminator(self.shape, self.num_classes)
            if self.lipschitz in ("spectral", "spectral-both"):
                discriminator = SpectralNorm(discriminator)
            if self.lipschitz == "spectral-both":
                generator = SpectralNorm(generator)
            if self.shift or self.cutout or self.colour:
                changes = self.shift, self.cutout, self.colour
                discriminator = Augmented(discriminator, *changes, self.ada_target > 0)
        return generator, discriminator

    def init(self, key: int) -> Pair:
        """Return a new pair whose weights are a function of the key."""
        generator, discriminator = self.build_networks(key)
        player = players.new_player(generator, self.generator_optimizer)
        average = players.new_average(player) if self.ema else {}
        return Pair(
            player, players.new_player(discriminator, self.discriminator_optimizer), average
        )

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

        def loss(params: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            modules, buffers = (self.discriminator, self.joint), discriminator.buffers
            on_real, on_fakes, buffers = apply_to_both(
                modules, params, buffers, (real, labels), (fakes, fake_labels)
            )
            value = self.objective.discriminator_loss(on_real, on_fakes, labels, fake_labels)
            if self.objective.has_penalties:
                penalties = self.objective.penalties(
                    self.critic(params, buffers), (real, labels), (fakes, fake_labels), key
                )
                value = value + overrides.scale_penalties(penalties)
            if self.ada_target:
                signs = self.objective.signs(on_real, on_fakes)
                buffers = adapted(buffers, signs, self.ada_target, self.ada_images)
            return value, buffers

        value, buffers, gradients = calculus.value_and_grad(loss, discriminator.params)
        params, moments = self.discriminator_optimizer.step(
            discriminator.params,
            gradients,
            discriminator.moments,
            *overrides.for_discriminator(self.discriminator_optimizer),
        )
        if self.lipschitz == "clip":
            params = clip(params, self.clip)
        return Player(params, buffers, moments), value

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
        module, params, before, on_real = self.discriminator, *discriminator[:2], None
        if self.objective.pairs(generator_loss):
            assert real is not None, "this loss compares fakes with real images"
            on_real, before = apply(module, params, before, *real)

        def loss(images: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            outputs, buffers = apply(module, params, before, images, labels)
            value = self.objective.generator_loss(outputs, labels, on_real, generator_loss)
            return value, buffers

        value, buffers, feedback = calculus.value_and_grad(loss, fakes)
        return discriminator._replace(buffers=buffers), feedback, value

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
        average, generator = pair.average, pair.generator
        params = {name: average.get(name, param) for name, param in generator.params.items()}
        buffers = {name: average.get(name, buffer) for name, buffer in generator.buffers.items()}
        with torch.no_grad():
            return apply(self.sampler, params, buffers, noise, labels)[0]
