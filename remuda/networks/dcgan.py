"""Build the DC-GAN and DC-CGAN of Lupo Pasini et al. 2021 (tables 1 to 4), and their later W-CGAN.

The W-CGAN is in tables I and II of the follow-up paper. The image size determines the layer sizes:
the generator starts from a quarter of the resolution, and the discriminator halves it four times.
At 32x32, the generator's input layer has 8192 outputs, as in the tables. The discriminator's last
layer has 512 inputs; the tables' value of 2048 is correct for 64x64 images. docs/networks.md
explains this and other contradictions in the papers.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from remuda.errors import UserError
from remuda.networks.base import Networks
from remuda.networks.layers import (
    BatchNorm2d,
    Conv2d,
    Dropout,
    Unflatten,
    UpsampledConv2d,
    channels_first,
    channels_last,
    one_hot,
)

SLOPE = 0.2  # negative slope of every LeakyReLU in the tables


@dataclass(frozen=True, kw_only=True)
class DCGAN(Networks):
    """Build a generator of up-sampling convolutions and a discriminator of strided ones."""

    # channels of the generator's first and the discriminator's last feature map, a multiple of 8
    width: int = 128
    epsilon: float = 0.8  # for all BatchNorms except the first, > 0; 0.8 in the tables
    dropout: float = 0.25  # after every convolution of the discriminator, rounded to n/256, <= 0.99
    input_activation: Literal["relu", "leaky-relu"] = "relu"  # after the generator's input layer
    # conditional only: whether the discriminator also receives the label; in table 4 it does not
    judge_label: bool = True
    # initial weights: torch = PyTorch's defaults, normal = N(0, 0.02) as in Radford et al.
    weights: Literal["torch", "normal"] = "torch"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width < 8 or self.width % 8:
            raise UserError(f"networks.width must be a multiple of 8, not {self.width}")
        if not 0 <= self.dropout <= 0.99:
            raise UserError(f"networks.dropout must be in [0, 0.99], not {self.dropout}")
        if self.epsilon <= 0:
            raise UserError(f"networks.epsilon must be above 0, not {self.epsilon}")

    def generator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        channels, size = _square(shape)
        module = Generator(self, channels, size, num_classes if self.conditional else 0)
        return self._initialised(module)

    def discriminator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        channels, size = _square(shape)
        module = Discriminator(self, channels, size, self._num_received_labels(num_classes))
        return self._initialised(module)

    def _num_received_labels(self, num_classes: int) -> int:
        """Return the number of labels that the discriminator receives; 0 = it receives none."""
        return num_classes if self.conditional and self.judge_label else 0

    def _initialised(self, module: nn.Module) -> nn.Module:
        if self.weights == "normal":
            module.apply(_draw_normal)
        return module


@dataclass(frozen=True, kw_only=True)
class WCGAN(DCGAN):
    """Build the Wasserstein pair: LeakyReLU after the input layer, and a critic.

    The critic in the table uses BatchNorm, which conflicts with a gradient penalty: an image's
    gradient then depends on the other images. The plain critic has neither BatchNorm nor dropout.
    With it, the pair learns every class of CIFAR-10.
    """

    input_activation: Literal["relu", "leaky-relu"] = "leaky-relu"
    critic: Literal["plain", "table"] = "plain"  # table: as in the paper's table II and the DC-GAN
    # plain: channels after the first of four convolutions, >= 1; each later one doubles them
    critic_width: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.critic_width < 1:
            raise UserError(f"networks.critic_width must be at least 1, not {self.critic_width}")

    def discriminator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        if self.critic == "table":
            return super().discriminator(shape, num_classes)
        channels, size = _square(shape)
        num_labels = self._num_received_labels(num_classes)
        return self._initialised(PlainCritic(self.critic_width, channels, size, num_labels))


class Generator(nn.Module):
    """Enlarge a linear layer's output with two up-sampling convolutions."""

    layer_groups: ClassVar[dict[str, str]] = {"input": "input", "body.7": "head"}

    def __init__(self, net: DCGAN, channels: int, size: int, num_labels: int):
        super().__init__()
        self.num_labels = num_labels
        start, width = size // 4, net.width
        self.input = nn.Linear(net.latent + num_labels, width * start * start)
        self.activation = nn.ReLU() if net.input_activation == "relu" else nn.LeakyReLU(SLOPE)
        self.unflatten = Unflatten(width, start, start)
        self.body = nn.Sequential(
            BatchNorm2d(width, eps=1e-5),
            UpsampledConv2d(width, width),
            BatchNorm2d(width, net.epsilon),
            nn.LeakyReLU(SLOPE),
            UpsampledConv2d(width, width // 2),
            BatchNorm2d(width // 2, net.epsilon),
            nn.LeakyReLU(SLOPE),
            Conv2d(width // 2, channels),
            nn.Tanh(),
        )

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        if self.num_labels:
            noise = torch.cat([noise, one_hot(labels, self.num_labels)], 1)
        return channels_first(self.body(self.unflatten(self.activation(self.input(noise)))))


class Discriminator(nn.Module):
    """Halve the image four times with strided convolutions, dropout and BatchNorm."""

    num_batches = 1  # see remuda.networks.batches
    layer_groups: ClassVar[dict[str, str]] = {"convolutions.0": "input", "output": "head"}

    def __init__(self, net: DCGAN, channels: int, size: int, num_labels: int):
        super().__init__()
        self.num_labels = num_labels
        widths = [channels + num_labels, net.width // 8, net.width // 4, net.width // 2, net.width]
        shapes = []
        for width in widths[1:]:
            size = (size + 1) // 2
            shapes.append((width, size, size))
        self.convolutions = nn.ModuleList(
            Conv2d(widths[i], widths[i + 1], stride=2) for i in range(4)
        )
        self.dropout = Dropout(net.dropout, *shapes)
        norms = [BatchNorm2d(width, net.epsilon) for width in widths[2:]]
        self.norms = nn.ModuleList([nn.Identity(), *norms])
        self.output = nn.Linear(net.width * size * size, 1)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        images = _with_labels(images, labels, self.num_labels)
        masks = self.dropout(images)
        for convolution, mask, norm in zip(self.convolutions, masks, self.norms, strict=True):
            images = leaky_relu(convolution(images), SLOPE)
            images = norm((images * mask).to(images.dtype))
        return self.output(channels_first(images).flatten(1))[:, 0]


class PlainCritic(nn.Module):
    """Halve the image four times with strided convolutions, without dropout or BatchNorm."""

    num_batches = 1  # see remuda.networks.batches
    layer_groups: ClassVar[dict[str, str]] = {"convolutions.0": "input", "output": "head"}

    def __init__(self, width: int, channels: int, size: int, num_labels: int):
        super().__init__()
        self.num_labels = num_labels
        widths = [channels + num_labels, width, 2 * width, 4 * width, 8 * width]
        self.convolutions = nn.ModuleList(
            Conv2d(widths[i], widths[i + 1], stride=2) for i in range(4)
        )
        for _ in range(4):
            size = (size + 1) // 2
        self.output = nn.Linear(widths[-1] * size * size, 1)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        images = _with_labels(images, labels, self.num_labels)
        for convolution in self.convolutions:
            images = leaky_relu(convolution(images), SLOPE)
        return self.output(channels_first(images).flatten(1))[:, 0]


def _with_labels(images: Tensor, labels: Tensor, num_labels: int) -> Tensor:
    """Add one plane for each label: all ones for the image's own label, zeros for the others.

    The images become images in the layout of the layers.
    """
    if not num_labels:
        return channels_last(images)
    planes = one_hot(labels, num_labels)[:, :, None, None].to(images.dtype)
    return channels_last(torch.cat([images, planes.expand(-1, -1, *images.shape[2:])], 1))


def _square(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the channels and the side of square images."""
    channels, height, width = shape
    if height != width or height % 4 or height < 8:
        raise UserError(
            "a convolutional pair needs square images with a side of 8, 12, 16, ... pixels, not "
            f"{height}x{width}: set data.size, or networks.name=mlp"
        )
    return channels, height


def _draw_normal(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d | nn.Linear):
        nn.init.normal_(module.weight, 0.0, 0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
