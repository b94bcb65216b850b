"""Compute what both players minimise: losses, class losses of an auxiliary classifier, penalties.

An objective is a pure function of the discriminator's outputs. Penalties also need the
discriminator itself, because they depend on its gradients with respect to images.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from remuda.gan.losses import Loss, class_loss, gradient_penalty, mean_squared_norm
from remuda.gan.players import Labelled
from remuda.tensors import calculus, random

Critic = Callable[..., tuple[Tensor, ...]]  # maps one or two Labelled to outputs, one for each
GeneratorLoss = Callable[[Tensor], Tensor]  # a function of the discriminator's outputs for fakes


@dataclass(frozen=True, kw_only=True)
class Objective:
    """Define the losses of both players."""

    loss: Loss
    auxiliary: bool = False  # whether the discriminator has an auxiliary classifier (see Networks)
    real_target: float = 1.0  # label of real images; less than 1 under label smoothing
    # Weights of the penalties on the discriminator's gradient; 0 = none.
    penalty: float = 0.0  # distance of its norm from 1, at points between real and fake images
    r1: float = 0.0  # half of its squared norm at real images
    r2: float = 0.0  # half of its squared norm at fakes
    penalty_every: int = 1  # compute penalties on one in this many images of a batch

    @property
    def has_penalties(self) -> bool:
        """Return whether the discriminator's loss includes ``penalties``."""
        return max(self.penalty, self.r1, self.r2) > 0

    def pairs(self, loss: GeneratorLoss | None = None) -> bool:
        """Return whether ``generator_loss`` needs outputs on real images for this ``loss``."""
        return self.loss.pairs and loss is None

    def discriminator_loss(
        self, on_real: Tensor, on_fakes: Tensor, labels: Tensor, fake_labels: Tensor
    ) -> Tensor:
        """Return the loss for outputs on real images and fakes, without the penalties."""
        source = self.source(on_real).float(), self.source(on_fakes).float()
        value = self.loss.discriminator(*source, self.real_target)
        if self.auxiliary:
            value = value + class_loss(on_real[:, 1:].float(), labels)
            value = value + class_loss(on_fakes[:, 1:].float(), fake_labels)
        return value

    def generator_loss(
        self,
        on_fakes: Tensor,
        labels: Tensor,
        on_real: Tensor | None = None,
        loss: GeneratorLoss | None = None,
    ) -> Tensor:
        """Return the loss for outputs on fakes; ``loss`` replaces the generator's loss.

        A loss that pairs images also needs the outputs on real images.
        """
        sources = [self.source(on_fakes).float()]
        if self.pairs(loss):
            assert on_real is not None, "this loss compares fakes with real images"
            sources.append(self.source(on_real).float())
        # PyTorch 2.11 does not compile "loss or self.loss.generator".
        value = self.loss.generator(*sources) if loss is None else loss(*sources)
        if self.auxiliary:
            value = value + class_loss(on_fakes[:, 1:].float(), labels)
        return value

    def signs(self, on_real: Tensor, on_fakes: Tensor) -> Tensor:
        """Return 1 for each real image that the discriminator takes for real, -1 for the others.

        If the loss has no boundary between real and fake, compare each real image with a fake.
        """
        boundary = self.loss.boundary
        if boundary is None:
            return (self.source(on_real) - self.source(on_fakes)).sign()
        return (self.source(on_real) - boundary).sign()

    def penalties(self, critic: Critic, real: Labelled, fakes: Labelled, key: Tensor) -> Tensor:
        """Return the weighted sum of all penalties.

        With ``penalty_every`` = k, they are means over the first 1/k of each batch. Compared with
        penalties of weight k on whole batches in every k-th step, the expectation and the cost
        are the same. But all steps are alike: one program serves all of them, and Adam's moments
        see no spikes.
        """
        num_images = -(-len(real[0]) // self.penalty_every)
        real = real[0][:num_images], real[1][:num_images]
        # Mixed precision must not round the gradients at fakes.
        fakes = fakes[0][:num_images].to(real[0].dtype), fakes[1][:num_images]
        values = []
        if self.penalty:
            place = random.uniform(random.fold(key, 0), (num_images, *[1] * (real[0].ndim - 1)))
            between = real[0] + place * (fakes[0] - real[0])
            (gradients,) = self._gradients(critic, (between, real[1]))
            values.append(self.penalty * gradient_penalty(gradients))
        chosen = [(self.r1, real)] if self.r1 else []
        chosen += [(self.r2, fakes)] if self.r2 else []
        if chosen:
            gradients = self._gradients(critic, *[batch for _, batch in chosen])
            for (weight, _), of_batch in zip(chosen, gradients, strict=True):
                values.append(0.5 * weight * mean_squared_norm(of_batch))
        return sum(values[1:], values[0])

    def _gradients(self, critic: Critic, *batches: Labelled) -> tuple[Tensor, ...]:
        """Return the gradient of each output with respect to its image, for every batch."""
        labels = [batch[1] for batch in batches]

        def total(images: tuple[Tensor, ...]) -> Tensor:
            outputs = critic(*zip(images, labels, strict=True))
            sums = [self.source(of_batch).sum() for of_batch in outputs]
            return sum(sums[1:], sums[0])

        return calculus.gradient(total, tuple(batch[0] for batch in batches))

    def source(self, outputs: Tensor) -> Tensor:
        """Return the outputs that tell real from fake, (b,); the others are class logits."""
        return outputs[:, 0] if self.auxiliary else outputs
