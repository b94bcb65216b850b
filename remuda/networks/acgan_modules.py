"""Define the modules of the ACGAN families: one generator and two kinds of discriminator."""

import math
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from remuda.errors import UserError
from remuda.networks.groups import ends_of
from remuda.networks.layers import (
    BatchNorm2d,
    Conv2d,
    Dropout,
    channels_first,
    channels_last,
    one_hot,
)
from remuda.networks.minibatch import MinibatchDiscrimination

SLOPE = 0.2  # negative slope of every LeakyReLU
WIDTHS = (16, 32, 64, 128, 256, 512)  # channels of every convolutional discriminator


class Generator(nn.Module):
    """Replace the first numbers of the noise by the one-hot label, then apply the layers."""

    def __init__(self, layers: list[nn.Module], latent: int, num_labels: int):
        if num_labels >= latent:
            raise UserError(
                f"networks.latent={latent} leaves no noise, because the one-hot labels of "
                f"{num_labels} classes replace its first numbers: set it to at least "
                f"{num_labels + 1}"
            )
        super().__init__()
        self.layers, self.num_labels = nn.Sequential(*layers), num_labels
        self.layer_groups = ends_of("layers", self.layers)

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        if self.num_labels:
            noise = torch.cat([one_hot(labels, self.num_labels), noise[:, self.num_labels :]], 1)
        return channels_first(self.layers(noise))


class Perceptron(nn.Module):
    """Discriminate and classify with linear layers; the output is (b, 1 + num_classes)."""

    num_batches = 1  # see remuda.networks.batches

    def __init__(self, layers: list[nn.Module]):
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.layer_groups = ends_of("layers", self.layers)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        return self.layers(images.flatten(1))


class Discriminator(nn.Module):
    """Discriminate and classify with six convolutions and one linear layer.

    Args:
        shape: channels, height and width of an image.
        strides: the stride of each convolution.
        num_classes: number of classes; 0 = only tell real from fake, with an output (b,).
        dropout: probability of dropout after every convolution.
        batch_norm: whether to normalise after every convolution except the first.
        num_kernels: number of kernels for minibatch discrimination; 0 = do not use it.
        num_dims: length of each kernel's learned projection; 0 = kernels compare channel means.
    """

    num_batches = 1  # see remuda.networks.batches
    layer_groups: ClassVar[dict[str, str]] = {
        "convolutions.0": "input",
        "minibatch": "head",
        "output": "head",
    }

    def __init__(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        *,
        num_classes: int,
        dropout: float,
        batch_norm: bool,
        num_kernels: int,
        num_dims: int,
    ):
        super().__init__()
        size, shapes = shape[1], []
        for width, stride in zip(WIDTHS, strides, strict=True):
            size = (size + stride - 1) // stride
            shapes.append((width, size, size))
        pairs = zip(pairwise([shape[0], *WIDTHS]), strides, strict=True)
        self.convolutions = nn.ModuleList(Conv2d(*widths, stride) for widths, stride in pairs)
        norms: list[nn.Module] = [nn.Identity() for _ in WIDTHS]
        if batch_norm:
            norms[1:] = [BatchNorm2d(width, eps=1e-5) for width in WIDTHS[1:]]
        self.norms = nn.ModuleList(norms)
        self.dropout = Dropout(dropout, *shapes)
        num_features = math.prod(shapes[-1])
        # Without a projection, comparing all pixels of every pair of images would be too expensive.
        self.pooled = num_dims == 0
        self.minibatch = None
        if num_kernels:
            num_compared = WIDTHS[-1] if self.pooled else num_features
            self.minibatch = MinibatchDiscrimination(num_compared, num_kernels, num_dims)
        self.output = nn.Linear(num_features + num_kernels, 1 + num_classes)
        self.num_classes = num_classes

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        masks = self.dropout(images)
        images = channels_last(images)
        for convolution, norm, mask in zip(self.convolutions, self.norms, masks, strict=True):
            images = leaky_relu(norm(convolution(images)), SLOPE)
            images = (images * mask).to(images.dtype)
        images = channels_first(images)
        features = images.flatten(1)
        if self.minibatch is not None:
            closeness = self.minibatch(images.mean((2, 3)) if self.pooled else features)
            features = torch.cat([features, closeness.to(features.dtype)], 1)
        outputs = self.output(features)
        return outputs if self.num_classes else outputs[:, 0]
