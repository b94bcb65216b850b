"""Build the multi-layer perceptrons of the cellular papers.

The generator is 64-256-256-784 with tanh at the end, and the discriminator mirrors it.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from remuda.errors import UserError
from remuda.networks.base import Networks
from remuda.networks.groups import ends_of
from remuda.networks.layers import one_hot

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "leaky-relu": lambda: nn.LeakyReLU(0.2),
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
}


@dataclass(frozen=True, kw_only=True)
class MLP(Networks):
    """Build networks of linear layers, for images of any shape and for points."""

    latent: int = 64
    hidden: int = 256  # neurons in a hidden layer, >= 1
    num_hidden: int = 2  # hidden layers, >= 1
    activation: Literal["leaky-relu", "tanh", "relu"] = "leaky-relu"  # of the hidden layers

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden < 1 or self.num_hidden < 1:
            raise UserError("networks.hidden and networks.num_hidden must be at least 1")

    def generator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        num_labels = num_classes if self.conditional else 0
        modules = layers(self._widths(self.latent + num_labels, math.prod(shape)), self.activation)
        return Generator(nn.Sequential(*modules, nn.Tanh()), shape, num_labels)

    def discriminator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        num_labels = num_classes if self.conditional else 0
        modules = layers(self._widths(math.prod(shape) + num_labels, 1), self.activation)
        return Discriminator(nn.Sequential(*modules), num_labels)

    def _widths(self, num_in: int, num_out: int) -> list[int]:
        return [num_in, *[self.hidden] * self.num_hidden, num_out]


def layers(widths: list[int], activation: str) -> list[nn.Module]:
    """Return linear layers from each width to the next, with activations between them."""
    modules: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        modules += [nn.Linear(before, after), ACTIVATIONS[activation]()]
    return modules[:-1]


class Generator(nn.Module):
    """Map the noise, with the one-hot label if there are labels, to images."""

    def __init__(self, layers: nn.Sequential, shape: tuple[int, ...], num_labels: int):
        super().__init__()
        self.layers, self.shape, self.num_labels = layers, shape, num_labels
        self.layer_groups = ends_of("layers", layers)

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        if self.num_labels:
            noise = torch.cat([noise, one_hot(labels, self.num_labels)], 1)
        return self.layers(noise).unflatten(1, self.shape)


class Discriminator(nn.Module):
    """Map the pixels, with the one-hot label if there are labels, to one number per image."""

    num_batches = 1  # see remuda.networks.batches

    def __init__(self, layers: nn.Sequential, num_labels: int):
        super().__init__()
        self.layers, self.num_labels = layers, num_labels
        self.layer_groups = ends_of("layers", layers)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        pixels = images.flatten(1)
        if self.num_labels:
            pixels = torch.cat([pixels, one_hot(labels, self.num_labels)], 1)
        return self.layers(pixels)[:, 0]
