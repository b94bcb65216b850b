"""Define residual blocks and their layers: conditional BatchNorm, resampling, self-attention.

As in layers.py, images have their channels last in compiled programs, and first in other code.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remuda.networks import convolutions, layers
from remuda.networks.layers import (
    BatchNorm2d,
    Conv2d,
    Pointwise,
    UpsampledConv2d,
    channels_first,
    channels_last,
    wide_type,
)

EPSILON = 1e-5  # of every BatchNorm


class PooledConv2d(nn.Conv2d):
    """Apply a 3x3 convolution with padding 1, then the mean over 2x2 pixels, in one pass.

    The two layers are equivalent to one 4x4 convolution with stride 2, whose kernel is the mean of
    the 3x3 kernel at four places. This needs 4 multiplications instead of 9, and the large image is
    never stored. The parameters are those of the 3x3 convolution.
    """

    num_batches = 1  # see remuda.networks.batches

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__(in_channels, out_channels, 3, padding=1)

    def forward(self, input: Tensor) -> Tensor:
        shifts = [(left, top) for left in (0, 1) for top in (0, 1)]
        placed = [F.pad(self.weight, (left, 1 - left, top, 1 - top)) for left, top in shifts]
        kernel = 0.25 * (placed[0] + placed[1] + placed[2] + placed[3])
        if not layers.is_compiled():
            return F.conv2d(input, kernel, self.bias, stride=2, padding=1)
        y = convolutions.convolution(input, kernel.permute(2, 3, 1, 0), stride=2, padding=1)
        return y + cast(Tensor, self.bias).to(y.dtype)


def halved(images: Tensor) -> Tensor:
    """Return the mean over every 2x2 pixels."""
    if not layers.is_compiled():
        return F.avg_pool2d(images, 2)
    _, height, width, _ = images.shape
    pixels = images.unflatten(2, (width // 2, 2)).unflatten(1, (height // 2, 2))
    return pixels.mean((2, 4))


def doubled(images: Tensor) -> Tensor:
    """Repeat every pixel in a square of 2x2 pixels."""
    if not layers.is_compiled():
        return F.interpolate(images, scale_factor=2, mode="nearest")
    batch, height, width, channels = images.shape
    pixels = images[:, :, None, :, None].expand(batch, height, 2, width, 2, channels)
    return pixels.reshape(batch, 2 * height, 2 * width, channels)


def chosen(classes: Tensor, rows: Tensor) -> Tensor:
    """Return the row of each image's class; ``classes`` (b, num_labels) are one-hot labels."""
    return classes.to(rows.dtype) @ rows


class ConditionalBatchNorm2d(nn.Module):
    """Normalise batches, then scale and shift every image by the numbers of its class.

    With ``num_labels`` = 0 there is one scale and one shift for all images: plain BatchNorm.
    """

    is_embedding = True  # see remuda.gan.lipschitz
    layer_group = "normalisation"  # see remuda.networks.groups

    def __init__(self, num_features: int, num_labels: int):
        super().__init__()
        self.norm = BatchNorm2d(num_features, EPSILON, affine=not num_labels)
        self.num_labels = num_labels
        if num_labels:
            self.scale = nn.Parameter(torch.ones(num_labels, num_features))
            self.shift = nn.Parameter(torch.zeros(num_labels, num_features))

    def forward(self, images: Tensor, classes: Tensor) -> Tensor:
        """Return the normalised images; ``classes`` (b, num_labels) are one-hot labels."""
        images = self.norm(images)
        if not self.num_labels:
            return images
        scale, shift = chosen(classes, self.scale), chosen(classes, self.shift)  # (b, channels)
        if layers.is_compiled():
            scale, shift = scale[:, None, None], shift[:, None, None]
        else:
            scale, shift = scale[:, :, None, None], shift[:, :, None, None]
        return (images * scale + shift).to(images.dtype)


class UpBlock(nn.Module):
    """Double an image's sides: BatchNorm, ReLU, up-sampling, two convolutions, and a shortcut."""

    def __init__(self, in_channels: int, out_channels: int, num_labels: int):
        super().__init__()
        self.norm1 = ConditionalBatchNorm2d(in_channels, num_labels)
        self.conv1 = UpsampledConv2d(in_channels, out_channels)
        self.norm2 = ConditionalBatchNorm2d(out_channels, num_labels)
        self.conv2 = Conv2d(out_channels, out_channels)
        self.shortcut = Pointwise(in_channels, out_channels)

    def forward(self, images: Tensor, classes: Tensor) -> Tensor:
        y = self.conv1(self.norm1(images, classes).relu())
        y = self.conv2(self.norm2(y, classes).relu())
        # A 1x1 convolution and up-sampling commute. In this order, there are fewer products.
        return y + doubled(self.shortcut(images))


class DownBlock(nn.Module):
    """Apply two convolutions and a shortcut; halve the image's sides if ``pooled`` is set.

    The first block of a network receives pixels, and applies no ReLU to them.
    """

    num_batches = 1  # see remuda.networks.batches

    def __init__(self, in_channels: int, out_channels: int, *, pooled: bool, first: bool = False):
        super().__init__()
        hidden = out_channels if first else in_channels
        self.first, self.pooled = first, pooled
        self.conv1 = Conv2d(in_channels, hidden)
        last = PooledConv2d if pooled else Conv2d
        self.conv2 = last(hidden, out_channels)
        self.shortcut = None
        if pooled or in_channels != out_channels:
            self.shortcut = Pointwise(in_channels, out_channels)

    def forward(self, images: Tensor) -> Tensor:
        y = self.conv1(images if self.first else images.relu())
        y = self.conv2(y.relu())
        # The mean over pixels and a 1x1 convolution commute.
        rest = halved(images) if self.pooled else images
        return y + (rest if self.shortcut is None else self.shortcut(rest))


class SelfAttention(nn.Module):
    """Add to every pixel a mixture of all pixels, weighted by similarity (Zhang et al. 2018).

    The mixture starts with a weight of 0, so a new network behaves as if there were no attention.
    """

    num_batches = 1  # see remuda.networks.batches

    def __init__(self, channels: int):
        super().__init__()
        narrow = max(1, channels // 8)
        self.query = nn.Linear(channels, narrow, bias=False)
        self.key = nn.Linear(channels, narrow, bias=False)
        self.value = nn.Linear(channels, max(1, channels // 2), bias=False)
        self.output = nn.Linear(max(1, channels // 2), channels, bias=False)
        self.gain = nn.Parameter(torch.zeros(()))

    def forward(self, images: Tensor) -> Tensor:
        planes = channels_first(images)
        pixels = planes.flatten(2).mT  # (b, H W, channels)
        similarity = self.query(pixels) @ self.key(pixels).mT
        weights = similarity.to(wide_type(pixels)).softmax(-1).to(pixels.dtype)
        mixture = self.output(weights @ self.value(pixels))
        mixture = channels_last(mixture.mT.unflatten(2, planes.shape[2:]))
        return images + (self.gain * mixture).to(images.dtype)
