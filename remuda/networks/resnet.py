"""Build the residual pairs of SNGAN, of the projection discriminator and of SAGAN.

T. Miyato et al., "Spectral normalization for generative adversarial networks", tables 4 and 6.
T. Miyato, M. Koyama, "cGANs with projection discriminator". H. Zhang et al., "Self-attention
generative adversarial networks".

The image size determines the number of blocks: the generator starts from a map whose shorter side
is about 4 pixels, and every block doubles it. docs/networks.md lists the layers, and the
differences from the papers.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from remuda.errors import UserError
from remuda.networks.base import Networks
from remuda.networks.layers import (
    BatchNorm2d,
    Conv2d,
    Unflatten,
    channels_first,
    channels_last,
    one_hot,
    wide_type,
)
from remuda.networks.resampling import sizes
from remuda.networks.residual import EPSILON, DownBlock, SelfAttention, UpBlock, chosen

CONSTANT = 3  # up to this many doublings, all blocks have the same width


@dataclass(frozen=True, kw_only=True)
class ResNet(Networks):
    """Build a residual generator with BatchNorm and a residual discriminator without it."""

    latent: int = 128
    # channels of the generator, a multiple of 4; from 64x64 pixels, they fall from 4 * width to
    # width / 4
    width: int = 256
    # channels of the discriminator, a multiple of 2; from 64x64 pixels, they rise from half to
    # 8 times this number
    discriminator_width: int = 128
    # conditional only: how the discriminator uses labels. projection: it compares its features with
    # a vector for the image's label; ac-gan: it classifies images
    head: Literal["projection", "ac-gan"] = "projection"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width < 4 or self.width % 4:
            raise UserError(f"networks.width must be a multiple of 4, not {self.width}")
        if self.discriminator_width < 2 or self.discriminator_width % 2:
            raise UserError(
                "networks.discriminator_width must be a multiple of 2, not "
                f"{self.discriminator_width}"
            )
        if self.head == "ac-gan" and not self.conditional:
            raise UserError("networks.head=ac-gan needs labels: set networks.conditional=true")

    @property
    def auxiliary(self) -> bool:
        return self.head == "ac-gan"

    def generator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        num_doublings = len(sizes(shape)) - 1
        widths = [self.width] * (num_doublings + 1)
        if num_doublings > CONSTANT:
            powers = reversed(range(num_doublings + 1))
            widths = [min(4 * self.width, self.width // 4 * 2**power) for power in powers]
        num_labels = num_classes if self.conditional else 0
        return _initialised(Generator(self, widths, shape, num_labels))

    def discriminator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        num_halvings = len(sizes(shape)) - 1
        widths, pooled = [self.discriminator_width] * 4, [True, True, False, False]
        if num_halvings < 2:
            pooled = [True, False, False, False]
        if num_halvings > CONSTANT:
            start, count = self.discriminator_width // 2, num_halvings + 1
            widths = [min(16 * start, start * 2**power) for power in range(count)]
            pooled = [True] * num_halvings + [False]
        num_labels = num_classes if self.conditional else 0
        return _initialised(Discriminator(self, widths, pooled, shape, num_labels))

    def attended(self, maps: list[tuple[int, int]]) -> tuple[int, int] | None:
        """Return the size of the feature map that has self-attention, or None if there is none.

        ``maps`` are the sizes of the network's feature maps.
        """
        return None


@dataclass(frozen=True, kw_only=True)
class SAGAN(ResNet):
    """Add self-attention to both networks, after one block each."""

    # attention is at the largest feature map whose shorter side is at most this long, >= 4
    attention_size: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.attention_size < 4:
            raise UserError(
                f"networks.attention_size must be at least 4, not {self.attention_size}"
            )

    def attended(self, maps: list[tuple[int, int]]) -> tuple[int, int]:
        small = [size for size in maps if min(size) <= self.attention_size]
        if not small:
            least = min(map(min, maps))
            raise UserError(
                f"networks.attention_size={self.attention_size} is smaller than the feature maps "
                f"of these images: set it to {least} or more"
            )
        return max(small)


class Generator(nn.Module):
    """Enlarge a linear layer's output with residual blocks."""

    layer_groups: ClassVar[dict[str, str]] = {"input": "input", "output": "head"}

    def __init__(self, net: ResNet, widths: list[int], shape: tuple[int, ...], num_labels: int):
        super().__init__()
        self.num_labels = num_labels
        (height, width), *larger = sizes(shape)
        self.input = nn.Linear(net.latent, widths[0] * height * width)
        self.unflatten = Unflatten(widths[0], height, width)
        self.blocks = nn.ModuleList(UpBlock(*pair, num_labels) for pair in pairwise(widths))
        attended = net.attended(larger)
        self.attentions = nn.ModuleList(
            SelfAttention(channels) if size == attended else nn.Identity()
            for channels, size in zip(widths[1:], larger, strict=True)
        )
        self.norm = BatchNorm2d(widths[-1], EPSILON)
        self.output = Conv2d(widths[-1], shape[0])

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        classes = one_hot(labels, self.num_labels)
        images = self.unflatten(self.input(noise))
        for block, attention in zip(self.blocks, self.attentions, strict=True):
            images = attention(block(images, classes))
        return channels_first(torch.tanh(self.output(self.norm(images).relu())))


class Discriminator(nn.Module):
    """Shrink images with residual blocks, sum the features over all pixels, and weight them.

    The output is a linear function of the features. The projection head adds the inner product of
    the features and the vector of the label.
    """

    num_batches = 1  # see remuda.networks.batches
    layer_groups: ClassVar[dict[str, str]] = {
        "blocks.0": "input",
        "output": "head",
        "embedding": "head",
    }

    def __init__(
        self,
        net: ResNet,
        widths: list[int],
        pooled: list[bool],
        shape: tuple[int, ...],
        num_labels: int,
    ):
        super().__init__()
        pairs = zip(pairwise([shape[0], *widths]), pooled, strict=True)
        self.blocks = nn.ModuleList(
            DownBlock(before, after, pooled=is_pooled, first=i == 0)
            for i, ((before, after), is_pooled) in enumerate(pairs)
        )
        # Only the first blocks pool. Attention follows one of them.
        _, *smaller = reversed(sizes(shape))
        maps = smaller[: sum(pooled)]
        place = maps.index(attended) if (attended := net.attended(maps)) else None
        self.attentions = nn.ModuleList(
            SelfAttention(channels) if i == place else nn.Identity()
            for i, channels in enumerate(widths)
        )
        self.auxiliary, self.num_labels = net.auxiliary, num_labels
        self.output = nn.Linear(widths[-1], 1 + num_labels if net.auxiliary else 1)
        self.embedding = None
        if num_labels and not net.auxiliary:
            self.embedding = nn.Parameter(torch.empty(num_labels, widths[-1]))

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        images = channels_last(images)
        for block, attention in zip(self.blocks, self.attentions, strict=True):
            images = attention(block(images))
        features = channels_first(images).relu().sum((2, 3), dtype=wide_type(images))
        outputs = self.output(features)
        if self.auxiliary:
            return outputs
        outputs = outputs[:, 0]
        if self.embedding is None:
            return outputs
        vectors = chosen(one_hot(labels, self.num_labels), self.embedding)
        return outputs + (features * vectors).sum(1)


def _initialised(network: nn.Module) -> nn.Module:
    """Draw weights as Miyato et al. do: Glorot uniform, with gain sqrt(2) in a block's branch."""
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            in_branch = ".conv" in name
            nn.init.xavier_uniform_(module.weight, math.sqrt(2) if in_branch else 1.0)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    if isinstance(network, Discriminator) and network.embedding is not None:
        nn.init.xavier_uniform_(network.embedding)
    return network
