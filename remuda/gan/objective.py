"""Compute what both players minimise: losses, class losses of an auxiliary classifier, penalties.

An objective is a pure function of the discriminator's outputs. Penalties also need the
discriminator itself, because they depend on its gradients with respect to images.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from remuda.gan.losses import Loss, class_loss, gradient_penalty
from remuda.tensors import calculus, random

Critic = Callable[[Tensor, Tensor], Tensor]  # maps images and labels to a discriminator's outputs
GeneratorLoss = Callable[[Tensor], Tensor]  # a function of the discriminator's outputs for fakes


@dataclass(frozen=True, kw_only=True)
class Objective:
    """Define the losses of both players."""

    loss: Loss
    auxiliary: bool = False  # whether the discriminator has an auxiliary classifier (see Networks)
    real_target: float = 1.0  # label of real images; less than 1 under label smoothing
    penalty: float = 0.0  # weight of the gradient penalty between real and fake images; 0 = none

    @property
    def has_penalties(self) -> bool:
        """Return whether the discriminator's loss includes ``penalties``."""
        return self.penalty > 0

    def discriminator_loss(
        self, on_real: Tensor, on_fakes: Tensor, labels: Tensor, fake_labels: Tensor
    ) -> Tensor:
        """Return the loss for outputs on real images and fakes, without the penalties."""
        source = self._source(on_real).float(), self._source(on_fakes).float()
        value = self.loss.discriminator(*source, self.real_target)
        if self.auxiliary:
            value = value + class_loss(on_real[:, 1:].float(), labels)
            value = value + class_loss(on_fakes[:, 1:].float(), fake_labels)
        return value

    def generator_loss(
        self, on_fakes: Tensor, labels: Tensor, loss: GeneratorLoss | None = None
    ) -> Tensor:
        """Return the loss for outputs on fakes; ``loss`` replaces the generator's loss."""
        # PyTorch 2.11 does not compile "loss or self.loss.generator".
        loss = self.loss.generator if loss is None else loss
        value = loss(self._source(on_fakes).float())
        if self.auxiliary:
            value = value + class_loss(on_fakes[:, 1:].float(), labels)
        return value

    def signs(self, on_real: Tensor, on_fakes: Tensor) -> Tensor:
        """Return 1 for each real image that the discriminator takes for real, -1 for the others.

        If the loss has no boundary between real and fake, compare each real image with a fake.
        """
        boundary = self.loss.boundary
        if boundary is None:
            return (self._source(on_real) - self._source(on_fakes)).sign()
        return (self._source(on_real) - boundary).sign()

    def penalties(
        self, critic: Critic, real: Tensor, fakes: Tensor, labels: Tensor, key: Tensor
    ) -> Tensor:
        """Return the weighted penalty at random points between real and fake images."""
        place = random.uniform(random.fold(key, 0), (real.shape[0], *[1] * (real.ndim - 1)))
        between = real + place * (fakes - real)
        return self.penalty * gradient_penalty(self._gradients(critic, between, labels))

    def _gradients(self, critic: Critic, images: Tensor, labels: Tensor) -> Tensor:
        """Return the gradient of each output with respect to its image, (b, C, H, W)."""
        return calculus.gradient(lambda x: self._source(critic(x, labels)).sum(), images)

    def _source(self, outputs: Tensor) -> Tensor:
        """Return the outputs that tell real from fake, (b,); the others are class logits."""
        return outputs[:, 0] if self.auxiliary else outputs
