"""Define the interface of a family of networks, which builds a generator and a discriminator."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import nn

from remuda.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Networks(ABC):
    """Define the settings of a family of networks: the ``networks`` section of a configuration.

    A generator maps noise (b, latent) and labels (b,) to images (b, *shape) in [-1, 1]; in
    training mode, some generators exceed this range. A discriminator maps images and labels to one
    real number per image, (b,): the logit of "real", or the value of the critic. The
    papers' tables end with a sigmoid; here it is part of the losses, where it is numerically
    stable. Unconditional networks ignore the labels. Generators also accept mixtures of labels,
    floats (b, num_classes), if they pass their labels to ``remuda.networks.layers.one_hot``.

    If ``auxiliary`` is true, the discriminator has an auxiliary classifier. It ignores the labels
    and returns (b, 1 + num_classes). Column 0 is the number above; the other columns are class
    logits.
    """

    latent: int = 100  # length of the noise vector, >= 1
    conditional: bool = False  # whether the generator also receives the one-hot label

    def __post_init__(self) -> None:
        if self.latent < 1:
            raise UserError(f"networks.latent must be at least 1, not {self.latent}")

    @property
    def auxiliary(self) -> bool:
        """Whether the discriminator has an auxiliary classifier."""
        return False

    @abstractmethod
    def generator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        """Build a generator for images of this shape (C, H, W)."""

    @abstractmethod
    def discriminator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        """Build a discriminator for images of this shape (C, H, W)."""


def count_parameters(module: nn.Module) -> int:
    """Return the number of parameters in a network."""
    return sum(parameter.numel() for parameter in module.parameters())
