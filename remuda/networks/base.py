"""Define what every family of networks offers: a generator and a discriminator for a data shape."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from remuda.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Networks(ABC):
    """Settings of a family of networks: the ``networks`` section of a configuration.

    A generator maps noise (b, latent) and labels (b,) to images (b, *shape) in [-1, 1]. A
    discriminator maps images and labels to one real number per image, (b,): the logit of "real", or
    the value of the critic. The sigmoid of the papers' tables is inside the losses, where it is
    numerically safe. Unconditional networks ignore the labels.

    If ``auxiliary`` is set, the discriminator has an auxiliary classifier: it ignores the labels
    and returns (b, 1 + num_classes): column 0 is the number above, the others are class logits.
    """

    auxiliary: ClassVar[bool] = False

    latent: int = 100  # length of the noise vector, >= 1
    conditional: bool = False  # whether the one-hot label joins the noise

    def __post_init__(self) -> None:
        if self.latent < 1:
            raise UserError(f"networks.latent must be at least 1, not {self.latent}")

    @abstractmethod
    def generator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        """Build a generator of images with this shape (C, H, W)."""

    @abstractmethod
    def discriminator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        """Build a discriminator of images with this shape (C, H, W)."""


def count_parameters(module: nn.Module) -> int:
    """Return the number of parameters of a network."""
    return sum(parameter.numel() for parameter in module.parameters())
