"""The ACGANs of Hardy et al. 2019, "MD-GAN", sections V-A-b and V-B-4, after Odena et al. 2017.

An ACGAN's discriminator does not see the label: it names the class itself, beside its judgement, and both players are
paid for right names. The label, one-hot, takes the first places of the generator's noise, so that the input has 100
numbers in all, as the paper's counts of parameters have it. See docs/networks.md for these counts.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from remuda.errors import UserError
from remuda.networks import mlp
from remuda.networks.base import Networks
from remuda.networks.layers import BatchNorm2d, Conv2d, Dropout, one_hot
from remuda.networks.minibatch import MinibatchDiscrimination

SLOPE = 0.2  # of every LeakyReLU
WIDTHS = (16, 32, 64, 128, 256, 512)  # channels of every convolutional discriminator


@dataclass(frozen=True, kw_only=True)
class ACGAN(Networks):
    """What all families share."""

    weights: Literal["keras", "torch"] = (
        "keras"  # initial ones: Glorot's, uniform, with biases of 0, or PyTorch's own
    )

    def _initialised(self, module: nn.Module) -> nn.Module:
        if self.weights == "keras":
            module.apply(_draw_as_keras)
        return module


@dataclass(frozen=True, kw_only=True)
class ACGANMLP(ACGAN):
    """Three fully connected layers each; for images of any shape and for points."""

    auxiliary: ClassVar[bool] = True

    conditional: bool = True  # always
    hidden: int = 512  # neurons in a hidden layer, >= 1
    num_hidden: int = 2  # hidden layers, >= 1
    activation: Literal["leaky-relu", "tanh", "relu"] = "leaky-relu"  # of the hidden layers

    def __post_init__(self):
        super().__post_init__()
        _check_conditional(self)
        if self.hidden < 1 or self.num_hidden < 1:
            raise UserError("networks.hidden and networks.num_hidden must be at least 1")

    def generator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        widths = [self.latent, *[self.hidden] * self.num_hidden, math.prod(shape)]
        layers = mlp.layers(widths, self.activation)
        return self._initialised(
            Generator([*layers, nn.Tanh(), nn.Unflatten(1, shape)], self.latent, num_classes)
        )

    def discriminator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        widths = [math.prod(shape), *[self.hidden] * self.num_hidden, 1 + num_classes]
        return self._initialised(Perceptron(mlp.layers(widths, self.activation)))


@dataclass(frozen=True, kw_only=True)
class Convolutional(ACGAN):
    """Transposed convolutions, 5x5 with stride 2, against six 3x3 convolutions; sizes follow from the data."""

    widths: ClassVar[
        tuple[int, ...]
    ]  # channels after the transposed convolutions, but for the last one
    strides: ClassVar[tuple[int, ...]] = (2, 1, 2, 1, 2, 1)  # of the discriminator

    dropout: float = 0.5  # after every convolution of the discriminator, a multiple of 1/256
    batch_norm: Literal["none", "generator", "both"] = (
        "generator"  # where: after all convolutions but the outermost
    )

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.dropout <= 0.99:
            raise UserError(f"networks.dropout must be in [0, 0.99], not {self.dropout}")

    @abstractmethod
    def first_width(self, start: int) -> int:
        """Channels of the generator's first image, which has start x start pixels."""

    def generator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        start = self._start(shape)
        first = self.first_width(start)
        layers = [
            nn.Linear(self.latent, first * start * start),
            nn.ReLU(),
            nn.Unflatten(1, (first, start, start)),
        ]
        for before, after in pairwise([first, *self.widths]):
            norms = [] if self.batch_norm == "none" else [BatchNorm2d(after, eps=1e-5)]
            layers += [_doubling(before, after), *norms, nn.ReLU()]
        layers += [_doubling(self.widths[-1], shape[0]), nn.Tanh()]
        return self._initialised(
            Generator(layers, self.latent, num_classes if self.auxiliary else 0)
        )

    def discriminator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        self._start(shape)
        return self._initialised(
            Discriminator(self, shape, num_classes if self.auxiliary else 0, 0, 0)
        )

    def _start(self, shape: tuple[int, ...]) -> int:
        _, height, width = shape
        factor = 2 ** (len(self.widths) + 1)
        if height != width or height % factor or height < 8:
            raise UserError(
                f"this convolutional pair needs square images with a side of 8 pixels or more that {factor} divides, "
                f"not {height}x{width}: set data.size, or networks.name=acgan-mlp"
            )
        return height // factor


@dataclass(frozen=True, kw_only=True)
class Auxiliary(Convolutional):
    """What the pairs for MNIST and CIFAR-10 share: classes, and minibatch discrimination."""

    auxiliary: ClassVar[bool] = True

    conditional: bool = True  # always
    minibatch_kernels: int = (
        32  # numbers that minibatch discrimination adds to an image's features; 0 = without it
    )
    minibatch_dims: int = (
        0  # length of each kernel's learned projection; 0 = none: it compares means of channels
    )

    def __post_init__(self):
        super().__post_init__()
        _check_conditional(self)
        if self.minibatch_kernels < 0 or self.minibatch_dims < 0:
            raise UserError(
                "networks.minibatch_kernels and networks.minibatch_dims must be at least 0"
            )
        if (
            self.minibatch_kernels
            and not self.minibatch_dims
            and WIDTHS[-1] % self.minibatch_kernels
        ):
            raise UserError(
                f"networks.minibatch_kernels={self.minibatch_kernels} cannot share {WIDTHS[-1]} channels evenly: take "
                "a power of 2, or learned projections with networks.minibatch_dims"
            )

    def discriminator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        self._start(shape)
        kernels = self.minibatch_kernels, self.minibatch_dims
        return self._initialised(Discriminator(self, shape, num_classes, *kernels))


@dataclass(frozen=True, kw_only=True)
class ACGANMnist(Auxiliary):
    """At 28x28 the generator starts with 128 x 7 x 7 = 6,272 neurons, and the discriminator ends with 512 x 7 x 7."""

    widths: ClassVar[tuple[int, ...]] = (32,)
    strides: ClassVar[tuple[int, ...]] = (2, 1, 2, 1, 1, 1)

    def first_width(self, start: int) -> int:
        return 128


@dataclass(frozen=True, kw_only=True)
class ACGANCifar10(Auxiliary):
    """At 32x32 the generator starts with 384 x 4 x 4 = 6,144 neurons, and the discriminator ends with 512 x 4 x 4."""

    widths: ClassVar[tuple[int, ...]] = (192, 96)

    def first_width(self, start: int) -> int:
        return 384


@dataclass(frozen=True, kw_only=True)
class ACGANCelebA(Convolutional):
    """The paper's variant for faces, which have no classes: one neuron out, no minibatch discrimination.

    The generator starts with 16,384 neurons at a quarter of the resolution: 256 x 8 x 8 for 32x32 images, 64 x 16 x 16
    for 64x64, 16 x 32 x 32 for 128x128.
    """

    widths: ClassVar[tuple[int, ...]] = (128,)

    def __post_init__(self):
        super().__post_init__()
        if self.conditional:
            raise UserError(
                "networks.conditional must be false for acgan-celeba: choose networks.name=acgan-cifar10"
            )

    def first_width(self, start: int) -> int:
        return max(1, 16_384 // start**2)


class Generator(nn.Module):
    def __init__(self, layers: list[nn.Module], latent: int, num_labels: int):
        if num_labels >= latent:
            raise UserError(
                f"networks.latent={latent} leaves no noise, since the labels of {num_labels} classes take its first "
                f"places: set it to {num_labels + 1} or more"
            )
        super().__init__()
        self.layers, self.num_labels = nn.Sequential(*layers), num_labels

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        if self.num_labels:
            noise = torch.cat([one_hot(labels, self.num_labels), noise[:, self.num_labels :]], 1)
        return self.layers(noise)


class Perceptron(nn.Module):
    """A discriminator whose last layer puts out the judgement and the classes."""

    def __init__(self, layers: list[nn.Module]):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        return self.layers(images.flatten(1))


class Discriminator(nn.Module):
    def __init__(
        self,
        net: Convolutional,
        shape: tuple[int, ...],
        num_classes: int,
        num_kernels: int,
        num_dims: int,
    ):
        super().__init__()
        size, shapes = shape[1], []
        for width, stride in zip(WIDTHS, net.strides, strict=True):
            size = (size + stride - 1) // stride
            shapes.append((width, size, size))
        num_features, num_channels = math.prod(shapes[-1]), WIDTHS[-1]
        pairs = zip(pairwise([shape[0], *WIDTHS]), net.strides, strict=True)
        self.convolutions = nn.ModuleList(Conv2d(*widths, stride) for widths, stride in pairs)
        norms = [
            BatchNorm2d(width, eps=1e-5) if net.batch_norm == "both" else nn.Identity()
            for width in WIDTHS[1:]
        ]
        self.norms = nn.ModuleList([nn.Identity(), *norms])
        self.dropout = Dropout(net.dropout, *shapes)
        self.pooled = (
            num_dims == 0
        )  # all pixels of all channels, compared for every two images, would be too many
        self.minibatch = (
            MinibatchDiscrimination(
                num_channels if self.pooled else num_features, num_kernels, num_dims
            )
            if num_kernels
            else None
        )
        self.output = nn.Linear(num_features + num_kernels, 1 + num_classes)
        self.auxiliary = net.auxiliary

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        for convolution, norm, mask in zip(
            self.convolutions, self.norms, self.dropout(images), strict=True
        ):
            images = leaky_relu(norm(convolution(images)), SLOPE) * mask
        features = images.flatten(1)
        if self.minibatch is not None:
            closeness = self.minibatch(images.mean((2, 3)) if self.pooled else features)
            features = torch.cat([features, closeness.to(features.dtype)], 1)
        outputs = self.output(features)
        return outputs if self.auxiliary else outputs[:, 0]


def _doubling(num_in: int, num_out: int) -> nn.ConvTranspose2d:
    return nn.ConvTranspose2d(num_in, num_out, 5, stride=2, padding=2, output_padding=1)


def _draw_as_keras(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def _check_conditional(networks: Networks) -> None:
    if not networks.conditional:
        raise UserError(
            "networks.conditional must be true for an ACGAN, which is trained with labels: leave it out, or choose "
            "another family"
        )
