"""Override the settings of a GAN for one pair or one step."""

from typing import NamedTuple

from torch import Tensor

from remuda.gan.objective import GeneratorLoss
from remuda.gan.optimizers import Adam


class Overrides(NamedTuple):
    """Override the GAN's settings for one pair; None keeps the GAN's setting."""

    generator_lr: Tensor | None = None
    discriminator_lr: Tensor | None = None
    loss: GeneratorLoss | None = None
    # The values of a schedule, see remuda.gan.schedules.
    lr_factor: Tensor | None = None  # multiplies both learning rates
    generator_betas: Tensor | None = None  # (2,)
    discriminator_betas: Tensor | None = None  # (2,)
    penalty_factor: Tensor | None = None  # multiplies the weights of all penalties
    ema_weight: Tensor | None = None  # weight of the newest generator in its moving average

    def for_generator(self, optimizer: Adam) -> tuple[Tensor | None, Tensor | None]:
        """Return the learning rate and the betas that replace those of the optimizer."""
        return _scaled(self.generator_lr, optimizer, self.lr_factor), self.generator_betas

    def for_discriminator(self, optimizer: Adam) -> tuple[Tensor | None, Tensor | None]:
        """Return the learning rate and the betas that replace those of the optimizer."""
        return _scaled(self.discriminator_lr, optimizer, self.lr_factor), self.discriminator_betas

    def scale_penalties(self, penalties: Tensor) -> Tensor:
        """Return the penalties with their scheduled weight."""
        return penalties if self.penalty_factor is None else self.penalty_factor * penalties


NO_OVERRIDES = Overrides()


def _scaled(lr: Tensor | None, optimizer: Adam, factor: Tensor | None) -> Tensor | None:
    if factor is None:
        return lr
    return factor * (optimizer.lr if lr is None else lr)
