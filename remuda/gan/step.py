"""One pair: how it starts, how it learns, how it generates. Pure functions; nothing here knows of a population."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from remuda.gan.augment import Augmented
from remuda.gan.lipschitz import SpectralNorm, clip
from remuda.gan.losses import Loss, class_loss, gradient_penalty
from remuda.gan.optimizers import Adam
from remuda.gan.players import Pair, Player, apply, blend, recruit, start_average
from remuda.networks import Networks
from remuda.tensors import calculus, random

Gradients = dict[str, Tensor]


class Rules(NamedTuple):
    """What one pair may have otherwise than its GAN says; None: nothing."""

    generator_lr: Tensor | None = None
    discriminator_lr: Tensor | None = None
    loss: Callable[[Tensor], Tensor] | None = (
        None  # the generator's, of the discriminator's outputs at its fakes
    )


SAME = Rules()


@dataclass(eq=False, kw_only=True)
class GAN:
    """Two networks and the rules of their game.

    ``real`` and ``fakes`` are images (b, C, H, W) in [-1, 1], ``labels`` (b,), ``noise`` (b, latent), ``key`` a scalar
    from which the rest is drawn (see remuda.seeds).
    """

    networks: Networks
    shape: tuple[int, ...]  # of one image
    num_classes: int
    loss: Loss
    generator_optimizer: Adam
    discriminator_optimizer: Adam
    lipschitz: str = "none"  # none, clip, penalty, spectral
    clip: float = 0.01  # clip: bound of the critic's weights
    penalty: float = 10.0  # penalty: weight of the gradient penalty
    real_target: float = 1.0
    ema: float = 0.0  # decay of the generator's moving average; 0 = none
    shift: float = 0.0  # the discriminator sees images shifted by up to this part of a side
    cutout: float = 0.0  # and with a square of this part of a side cut out
    # Templates: they give the structure; the weights are always arguments.
    generator: nn.Module = field(init=False, repr=False)
    discriminator: nn.Module = field(init=False, repr=False)
    sampler: nn.Module = field(init=False, repr=False)  # the generator in evaluation mode

    def __post_init__(self):
        self.generator, self.discriminator = self._build(0)
        self.sampler = copy.deepcopy(self.generator).eval()

    def _build(self, key: int) -> tuple[nn.Module, nn.Module]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(key)
            generator = self.networks.generator(self.shape, self.num_classes)
            discriminator = self.networks.discriminator(self.shape, self.num_classes)
            if self.lipschitz == "spectral":
                discriminator = SpectralNorm(discriminator)
            if self.shift or self.cutout:
                discriminator = Augmented(discriminator, self.shift, self.cutout)
        return generator, discriminator

    def init(self, key: int) -> Pair:
        """A new pair whose weights are a function of the key."""
        generator, discriminator = self._build(key)
        player = recruit(generator, self.generator_optimizer)
        average = start_average(player) if self.ema else {}
        return Pair(player, recruit(discriminator, self.discriminator_optimizer), average)

    def step(
        self,
        pair: Pair,
        real: Tensor,
        labels: Tensor,
        noise: Tensor,
        keys: Tensor,
        rules: Rules = SAME,
    ) -> tuple[Pair, dict[str, Tensor]]:
        """K updates of the discriminator, then one of the generator; all arguments have a leading axis K.

        The generator answers for the last batch of fakes that the discriminator has seen, as in the papers' step of
        two minibatches, so that one pass through it serves both updates.
        """
        generator, discriminator, average = pair
        losses = []
        for k in range(real.shape[0]):
            fakes, buffers, pull = self.imagine(generator, noise[k], labels[k])
            generator = generator._replace(buffers=buffers)
            discriminator, loss = self.discriminate(
                discriminator, real[k], fakes, labels[k], keys[k], lr=rules.discriminator_lr
            )
            losses.append(loss)
        pair, metrics = self.answer(
            Pair(generator, discriminator, average), fakes, pull, labels[-1], rules
        )
        return pair, {"discriminator_loss": torch.stack(losses).mean(), **metrics}

    def discriminator_step(
        self, pair: Pair, real: Tensor, labels: Tensor, noise: Tensor, key: Tensor
    ) -> tuple[Pair, dict[str, Tensor]]:
        """One of the discriminator's updates in ``step``."""
        fakes, buffers, _ = self.imagine(pair.generator, noise, labels)
        discriminator, loss = self.discriminate(pair.discriminator, real, fakes, labels, key)
        pair = pair._replace(
            generator=pair.generator._replace(buffers=buffers), discriminator=discriminator
        )
        return pair, {"discriminator_loss": loss}

    def generator_step(
        self, pair: Pair, labels: Tensor, noise: Tensor, rules: Rules = SAME
    ) -> tuple[Pair, dict[str, Tensor]]:
        """The rest of ``step``: the same fakes as in the last update of the discriminator are made once more."""
        fakes, _, pull = self.imagine(pair.generator, noise, labels)
        return self.answer(pair, fakes, pull, labels, rules)

    def answer(
        self,
        pair: Pair,
        fakes: Tensor,
        pull: Callable[[Tensor], Gradients],
        labels: Tensor,
        rules: Rules,
    ) -> tuple[Pair, dict[str, Tensor]]:
        discriminator, feedback, loss = self.judge(pair.discriminator, fakes, labels, rules.loss)
        generator = self.descend(pair.generator, pull(feedback), rules.generator_lr)
        average = blend(pair.average, generator, self.ema) if self.ema else pair.average
        return Pair(generator, discriminator, average), {"generator_loss": loss}

    def imagine(
        self, generator: Player, noise: Tensor, labels: Tensor
    ) -> tuple[Tensor, dict[str, Tensor], Callable[[Tensor], Gradients]]:
        """Fakes, the generator's buffers afterwards, and the way back from gradients at the fakes to its parameters."""
        return calculus.vjp(
            lambda params: apply(self.generator, params, generator.buffers, noise, labels),
            generator.params,
        )

    def discriminate(
        self,
        discriminator: Player,
        real: Tensor,
        fakes: Tensor,
        labels: Tensor,
        key: Tensor,
        fake_labels: Tensor | None = None,
        lr: Tensor | None = None,
    ) -> tuple[Player, Tensor]:
        """One update of the discriminator, and the loss before it; fakes have the labels of real, or their own."""
        fake_labels = labels if fake_labels is None else fake_labels

        def loss(params: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            on_real, buffers = apply(
                self.discriminator, params, discriminator.buffers, real, labels
            )
            on_fakes, buffers = apply(self.discriminator, params, buffers, fakes, fake_labels)
            value = self.discriminator_loss(on_real, on_fakes, labels, fake_labels)
            if self.lipschitz == "penalty":
                value = value + self.penalty_of(params, buffers, real, fakes, labels, key)
            return value, buffers

        value, buffers, gradients = calculus.value_and_grad(loss, discriminator.params)
        params, moments = self.discriminator_optimizer.step(
            discriminator.params, gradients, discriminator.moments, lr
        )
        if self.lipschitz == "clip":
            params = clip(params, self.clip)
        return Player(params, buffers, moments), value

    def source(self, outputs: Tensor) -> Tensor:
        """Of the discriminator's outputs those that tell real from fake, (b,); the others are logits of classes."""
        return outputs[:, 0] if self.networks.auxiliary else outputs

    def discriminator_loss(
        self, on_real: Tensor, on_fakes: Tensor, labels: Tensor, fake_labels: Tensor
    ) -> Tensor:
        """Of its outputs at real images and at fakes, without what depends on its gradients."""
        source = self.source(on_real).float(), self.source(on_fakes).float()
        value = self.loss.discriminator(*source, self.real_target)
        if self.networks.auxiliary:
            value = value + class_loss(on_real[:, 1:].float(), labels)
            value = value + class_loss(on_fakes[:, 1:].float(), fake_labels)
        return value

    def generator_loss(
        self, on_fakes: Tensor, labels: Tensor, loss: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Of the discriminator's outputs at its fakes; by another loss than the GAN's, where one is given."""
        loss = (
            self.loss.generator if loss is None else loss
        )  # PyTorch 2.11 does not compile "loss or ..."
        value = loss(self.source(on_fakes).float())
        if self.networks.auxiliary:
            value = value + class_loss(on_fakes[:, 1:].float(), labels)
        return value

    def penalty_of(self, params, buffers, real, fakes, labels, key) -> Tensor:
        """For the critic's gradients at random points on the lines from real to fake images."""
        place = random.uniform(random.fold(key, 0), (real.shape[0], *[1] * (real.ndim - 1)))
        between = real + place * (fakes - real)
        gradients = calculus.gradient(
            lambda images: self.source(
                apply(self.discriminator, params, buffers, images, labels)[0]
            ).sum(),
            between,
        )
        return self.penalty * gradient_penalty(gradients)

    def judge(
        self,
        discriminator: Player,
        fakes: Tensor,
        labels: Tensor,
        generator_loss: Callable[[Tensor], Tensor] | None = None,
    ) -> tuple[Player, Tensor, Tensor]:
        """The gradient of the generator's loss at every fake, and that loss; only the discriminator's buffers move."""

        def loss(images: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            outputs, buffers = apply(
                self.discriminator, discriminator.params, discriminator.buffers, images, labels
            )
            return self.generator_loss(outputs, labels, generator_loss), buffers

        value, buffers, feedback = calculus.value_and_grad(loss, fakes)
        return discriminator._replace(buffers=buffers), feedback, value

    def descend(self, generator: Player, gradients: Gradients, lr: Tensor | None = None) -> Player:
        """One update of the generator."""
        params, moments = self.generator_optimizer.step(
            generator.params, gradients, generator.moments, lr
        )
        return generator._replace(params=params, moments=moments)

    def generate(self, pair: Pair, noise: Tensor, labels: Tensor) -> Tensor:
        """Images as a user sees them: from the averaged weights if there are any, with the running statistics."""
        params = {
            name: pair.average.get(name, param) for name, param in pair.generator.params.items()
        }
        buffers = {
            name: pair.average.get(name, buffer) for name, buffer in pair.generator.buffers.items()
        }
        with torch.no_grad():
            return apply(self.sampler, params, buffers, noise, labels)[0]
