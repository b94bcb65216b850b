"""Define the modules of R3GAN: residual blocks, the layers at both ends, and the two networks."""

import math
from itertools import pairwise
from typing import ClassVar, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remuda.networks import convolutions, layers
from remuda.networks.layers import Pointwise, channels_first, channels_last, one_hot, wide_type
from remuda.networks.resampling import Downsampling, Upsampling

SLOPE = 0.2  # negative slope of every LeakyReLU
GAIN = math.sqrt(2 / (1 + SLOPE**2))  # keeps the variance of a signal across a LeakyReLU

Layer = TypeVar("Layer", nn.Linear, Pointwise, "GroupedConv2d")


class Stage(NamedTuple):
    """Describe the feature maps of one resolution."""

    height: int
    width: int
    channels: int


class Blocks(NamedTuple):
    """Describe the residual blocks of a network."""

    per_stage: int
    expansion: int  # channels inside a block, as a multiple of the stage's
    group_width: int  # channels per group of the 3x3 convolutions


class GroupedConv2d(nn.Conv2d):
    """Apply a 3x3 convolution with padding 1 to each group of channels separately."""

    num_batches = 1  # see remuda.networks.batches

    def __init__(self, channels: int, groups: int):
        super().__init__(channels, channels, 3, padding=1, groups=groups)

    def forward(self, input: Tensor) -> Tensor:
        if not layers.is_compiled():
            return super().forward(input)
        weight = self.weight.permute(2, 3, 1, 0)  # (k, k, in / groups, out)
        y = convolutions.convolution(input, weight, stride=1, padding=1, groups=self.groups)
        return y + cast(Tensor, self.bias).to(y.dtype)


class Block(nn.Module):
    """Add the output of three convolutions to the images; at the start, this output is 0.

    The initial weights follow Fixup (Zhang et al. 2019), which replaces normalisation: the last
    convolution starts with zeros, and the gain of the others decreases with the depth of the
    network, here with its number of residual blocks.
    """

    num_batches = 1  # see remuda.networks.batches

    def __init__(self, channels: int, expansion: int, group_width: int, num_blocks: int):
        super().__init__()
        inner = channels * expansion
        self.expand = Pointwise(channels, inner)
        self.convolution = GroupedConv2d(inner, inner // group_width)
        self.reduce = Pointwise(inner, channels, bias=False)
        gain = GAIN * num_blocks**-0.25  # -1 / (2 m - 2) for blocks of m = 3 layers
        _draw(self.expand, gain)
        _draw(self.convolution, gain)
        _draw(self.reduce, 0.0)

    def forward(self, images: Tensor) -> Tensor:
        inner = F.leaky_relu(self.expand(images), SLOPE)
        inner = F.leaky_relu(self.convolution(inner), SLOPE)
        return images + self.reduce(inner)


class GenerativeBasis(nn.Module):
    """Return learned images, one per channel, each multiplied by a linear function of the noise."""

    def __init__(self, num_inputs: int, stage: Stage):
        super().__init__()
        self.weights = _draw(nn.Linear(num_inputs, stage.channels, bias=False))
        self.basis = nn.Parameter(torch.randn(stage.channels, stage.height, stage.width))

    def forward(self, noise: Tensor) -> Tensor:
        weights = self.weights(noise)
        return channels_last((weights[:, :, None, None] * self.basis).to(weights.dtype))


class DiscriminativeBasis(nn.Module):
    """Return the inner product of each channel with a learned image: (b, channels)."""

    num_batches = 1  # see remuda.networks.batches

    def __init__(self, stage: Stage):
        super().__init__()
        self.basis = nn.Parameter(torch.randn(stage.channels, stage.height, stage.width))
        with torch.no_grad():
            self.basis /= math.sqrt(stage.height * stage.width)

    def forward(self, images: Tensor) -> Tensor:
        return (channels_first(images) * self.basis).sum((2, 3))


class Generator(nn.Module):
    """Combine the images of a basis, then enlarge and refine them stage by stage.

    In training mode, pixels are not limited to [-1, 1]: a limit would stop gradients.
    """

    layer_groups: ClassVar[dict[str, str]] = {
        "embedding": "input",
        "basis": "input",
        "output": "head",
    }

    def __init__(
        self, stages: list[Stage], blocks: Blocks, latent: int, image_channels: int, num_labels: int
    ):
        super().__init__()
        self.num_labels = num_labels
        self.embedding = None
        if num_labels:
            self.embedding = _draw(nn.Linear(num_labels, latent, bias=False))
        self.basis = GenerativeBasis(2 * latent if num_labels else latent, stages[0])
        modules = _blocks(stages[0], blocks, len(stages))
        for before, after in pairwise(stages):
            modules += [*_changed(before, after), Upsampling()]
            modules += _blocks(after, blocks, len(stages))
        self.body = nn.Sequential(*modules)
        self.output = _draw(Pointwise(stages[-1].channels, image_channels, bias=False))

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        if self.embedding is not None:
            embedded = self.embedding(one_hot(labels, self.num_labels).to(noise.dtype))
            noise = torch.cat([noise, embedded.to(noise.dtype)], 1)
        images = channels_first(self.output(self.body(self.basis(noise))))
        return images if self.training else images.clamp(-1, 1)


class Discriminator(nn.Module):
    """Reverse the stages of the generator, and compare the result with a basis.

    With labels, the output is an inner product with the embedding of the label, a projection
    discriminator without an unconditional term.
    """

    num_batches = 1  # see remuda.networks.batches
    layer_groups: ClassVar[dict[str, str]] = {
        "input": "input",
        "basis": "head",
        "output": "head",
        "embedding": "head",
    }

    def __init__(self, stages: list[Stage], blocks: Blocks, image_channels: int, num_labels: int):
        super().__init__()
        self.num_labels = num_labels
        self.input = _draw(Pointwise(image_channels, stages[-1].channels, bias=False))
        modules = _blocks(stages[-1], blocks, len(stages))
        for before, after in pairwise(reversed(stages)):
            modules += [Downsampling(), *_changed(before, after)]
            modules += _blocks(after, blocks, len(stages))
        self.body = nn.Sequential(*modules)
        self.basis = DiscriminativeBasis(stages[0])
        channels = stages[0].channels
        self.output = _draw(nn.Linear(channels, channels if num_labels else 1, bias=False))
        self.embedding = None
        if num_labels:
            embedding = nn.Linear(num_labels, channels, bias=False)
            self.embedding = _draw(embedding, 1 / math.sqrt(channels))

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        features = self.basis(self.body(self.input(channels_last(images))))
        outputs = self.output(features)
        if self.embedding is None:
            return outputs[:, 0]
        embedded = self.embedding(one_hot(labels, self.num_labels).to(images.dtype))
        # In half precision, the products would be too coarse.
        wide = wide_type(outputs)
        return (outputs.to(wide) * embedded.to(wide)).sum(1)


def _blocks(stage: Stage, blocks: Blocks, num_stages: int) -> list[nn.Module]:
    """Return the residual blocks of one stage."""
    total = blocks.per_stage * num_stages
    return [
        Block(stage.channels, blocks.expansion, blocks.group_width, total)
        for _ in range(blocks.per_stage)
    ]


def _changed(before: Stage, after: Stage) -> list[nn.Module]:
    """Return the layer that changes the number of channels, if it changes."""
    if before.channels == after.channels:
        return []
    return [_draw(Pointwise(before.channels, after.channels, bias=False))]


def _draw(module: Layer, gain: float = 1.0) -> Layer:
    """Draw weights that scale a signal's standard deviation by ``gain``; set biases to 0."""
    nn.init.normal_(module.weight, 0.0, gain / math.sqrt(module.weight[0].numel()))
    if module.bias is not None:
        nn.init.zeros_(module.bias)
    return module
