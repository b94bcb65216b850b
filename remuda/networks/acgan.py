"""Build the ACGANs of Hardy et al. 2019, "MD-GAN", which follow Odena et al. 2017.

Sections V-A-b and V-B-4 of the MD-GAN paper describe the networks. The discriminator of an
ACGAN does not receive the label. It classifies the image in addition to telling real from fake, and
a correct classification lowers the loss of both players. The one-hot label replaces the first
numbers of the generator's noise. So the input has 100 numbers in total, which agrees with the
paper's parameter counts. docs/networks.md explains these counts.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

from torch import nn

from remuda.errors import UserError
from remuda.networks import mlp
from remuda.networks.acgan_modules import WIDTHS, Discriminator, Generator, Perceptron
from remuda.networks.base import Networks
from remuda.networks.layers import BatchNorm2d, Doubling, Unflatten


@dataclass(frozen=True, kw_only=True)
class ACGAN(Networks):
    """Define the settings that all ACGAN families share."""

    # initial weights: keras = Glorot uniform with biases of 0, torch = PyTorch's defaults
    weights: Literal["keras", "torch"] = "keras"

    def _initialised(self, module: nn.Module) -> nn.Module:
        if self.weights == "keras":
            module.apply(_draw_as_keras)
        return module


@dataclass(frozen=True, kw_only=True)
class ACGANMLP(ACGAN):
    """Build two networks of three linear layers, for images of any shape and for points."""

    conditional: bool = True  # must be true
    hidden: int = 512  # neurons in a hidden layer, >= 1
    num_hidden: int = 2  # hidden layers, >= 1
    activation: Literal["leaky-relu", "tanh", "relu"] = "leaky-relu"  # of the hidden layers

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_conditional(self)
        if self.hidden < 1 or self.num_hidden < 1:
            raise UserError("networks.hidden and networks.num_hidden must be at least 1")

    @property
    def auxiliary(self) -> bool:
        return True

    def generator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        widths = [self.latent, *[self.hidden] * self.num_hidden, math.prod(shape)]
        layers = [*mlp.layers(widths, self.activation), nn.Tanh(), Unflatten(*shape)]
        return self._initialised(Generator(layers, self.latent, num_classes))

    def discriminator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        widths = [math.prod(shape), *[self.hidden] * self.num_hidden, 1 + num_classes]
        return self._initialised(Perceptron(mlp.layers(widths, self.activation)))


@dataclass(frozen=True, kw_only=True)
class Convolutional(ACGAN):
    """Build a generator of transposed convolutions and a discriminator of six convolutions.

    Transposed convolutions are 5x5 with stride 2; convolutions are 3x3. The image size determines
    the sizes of all layers.
    """

    # channels after each transposed convolution except the last
    widths: ClassVar[tuple[int, ...]]
    strides: ClassVar[tuple[int, ...]] = (2, 1, 2, 1, 2, 1)  # strides of the discriminator

    dropout: float = 0.5  # after every convolution of the discriminator, rounded to n/256, <= 0.99
    # networks that use BatchNorm, after all convolutions except the outermost
    batch_norm: Literal["none", "generator", "both"] = "generator"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.dropout <= 0.99:
            raise UserError(f"networks.dropout must be in [0, 0.99], not {self.dropout}")

    @abstractmethod
    def first_width(self, start: int) -> int:
        """Return the number of channels of the generator's first feature map (start x start)."""

    def generator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        start = self._start(shape)
        first = self.first_width(start)
        layers = [
            nn.Linear(self.latent, first * start * start),
            nn.ReLU(),
            Unflatten(first, start, start),
        ]
        for before, after in pairwise([first, *self.widths]):
            norms = [] if self.batch_norm == "none" else [BatchNorm2d(after, eps=1e-5)]
            layers += [Doubling(before, after), *norms, nn.ReLU()]
        layers += [Doubling(self.widths[-1], shape[0]), nn.Tanh()]
        num_labels = num_classes if self.auxiliary else 0
        return self._initialised(Generator(layers, self.latent, num_labels))

    def discriminator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        self._start(shape)
        num_kernels, num_dims = self._minibatch()
        module = Discriminator(
            shape,
            self.strides,
            num_classes=num_classes if self.auxiliary else 0,
            dropout=self.dropout,
            batch_norm=self.batch_norm == "both",
            num_kernels=num_kernels,
            num_dims=num_dims,
        )
        return self._initialised(module)

    def _minibatch(self) -> tuple[int, int]:
        """Return the number of minibatch-discrimination kernels and the length of a projection."""
        return 0, 0

    def _start(self, shape: tuple[int, ...]) -> int:
        """Return the side of the generator's first feature map."""
        _, height, width = shape
        factor = 2 ** (len(self.widths) + 1)
        if height != width or height % factor or height < 8:
            raise UserError(
                "this convolutional pair needs square images whose side is at least 8 pixels and a "
                f"multiple of {factor}, not {height}x{width}: set data.size, or "
                "networks.name=acgan-mlp"
            )
        return height // factor


@dataclass(frozen=True, kw_only=True)
class Auxiliary(Convolutional):
    """Add classes and minibatch discrimination to the networks, for MNIST and CIFAR-10."""

    conditional: bool = True  # must be true
    # number of features that minibatch discrimination adds to an image, >= 0; 0 = off
    minibatch_kernels: int = 32
    # length of each kernel's learned projection, >= 0; 0 = kernels compare channel means instead
    minibatch_dims: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_conditional(self)
        kernels, dims = self.minibatch_kernels, self.minibatch_dims
        if kernels < 0 or dims < 0:
            raise UserError(
                "networks.minibatch_kernels and networks.minibatch_dims must be at least 0"
            )
        if kernels and not dims and WIDTHS[-1] % kernels:
            raise UserError(
                f"networks.minibatch_kernels={kernels} does not divide {WIDTHS[-1]} channels "
                f"evenly: choose a power of 2 up to {WIDTHS[-1]}, or learned projections with "
                "networks.minibatch_dims"
            )

    @property
    def auxiliary(self) -> bool:
        return True

    def _minibatch(self) -> tuple[int, int]:
        return self.minibatch_kernels, self.minibatch_dims


@dataclass(frozen=True, kw_only=True)
class ACGANMnist(Auxiliary):
    """Build the paper's pair for MNIST.

    At 28x28 the generator starts with 128 x 7 x 7 = 6,272 neurons, and the discriminator ends with
    512 x 7 x 7.
    """

    widths: ClassVar[tuple[int, ...]] = (32,)
    strides: ClassVar[tuple[int, ...]] = (2, 1, 2, 1, 1, 1)

    def first_width(self, start: int) -> int:
        return 128


@dataclass(frozen=True, kw_only=True)
class ACGANCifar10(Auxiliary):
    """Build the paper's pair for CIFAR-10.

    At 32x32 the generator starts with 384 x 4 x 4 = 6,144 neurons, and the discriminator ends with
    512 x 4 x 4.
    """

    widths: ClassVar[tuple[int, ...]] = (192, 96)

    def first_width(self, start: int) -> int:
        return 384


@dataclass(frozen=True, kw_only=True)
class ACGANCelebA(Convolutional):
    """Build the paper's pair for faces, which have no classes.

    The discriminator has one output and no minibatch discrimination. The generator starts with
    16,384 neurons at a quarter of the resolution: 256 x 8 x 8 for 32x32 images, 64 x 16 x 16 for
    64x64, 16 x 32 x 32 for 128x128.
    """

    widths: ClassVar[tuple[int, ...]] = (128,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.conditional:
            raise UserError(
                "networks.conditional must be false for acgan-celeba, which has no classes: leave "
                "it out, or choose networks.name=acgan-cifar10"
            )

    def first_width(self, start: int) -> int:
        return max(1, 16_384 // start**2)


def _draw_as_keras(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def _check_conditional(networks: Networks) -> None:
    if not networks.conditional:
        raise UserError(
            "networks.conditional must be true for an ACGAN, which trains with labels: leave it "
            "out, or choose another networks.name"
        )
