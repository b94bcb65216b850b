"""Decide how often images are halved; double or halve images with a smooth filter.

The filter, which avoids aliasing, is 1, 3, 3, 1 along both axes: the nearest neighbour or the mean
of two pixels, blurred with 1, 2, 1. Pixels outside the image are 0. This is a convolution with
stride 2, or its transpose. It consists of sums of shifted images here, because a compiler can fuse
these sums with other layers, and because they work under ``vmap`` and with second derivatives.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remuda.errors import UserError
from remuda.networks import layers

SHORTEST = 4  # pixels of the shorter side of the smallest feature map, at least


def sizes(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the sizes of a pair's feature maps, from the smallest to that of the images.

    Both sides are halved as long as they are even and the result has at least ``SHORTEST`` pixels.
    """
    _, height, width = shape
    found = [(height, width)]
    while height % 2 == 0 and width % 2 == 0 and min(height, width) >= 2 * SHORTEST:
        height, width = height // 2, width // 2
        found.append((height, width))
    if len(found) == 1:
        raise UserError(
            f"a residual pair needs images whose sides are even and at least {2 * SHORTEST} "
            f"pixels long, not {height}x{width}: set data.size, or networks.name=mlp"
        )
    return found[::-1]


class Upsampling(nn.Module):
    """Double the height and the width of images."""

    def forward(self, images: Tensor) -> Tensor:
        for axis in _axes():
            images = _doubled(images, axis)
        return images


class Downsampling(nn.Module):
    """Halve the height and the width of images, which must be even."""

    num_batches = 1  # see remuda.networks.batches

    def forward(self, images: Tensor) -> Tensor:
        for axis in _axes():
            images = _halved(images, axis)
        return images


def _axes() -> tuple[int, int]:
    """Return the axes of the height and the width in the layout of the layers."""
    return (1, 2) if layers.is_compiled() else (2, 3)


def _doubled(x: Tensor, axis: int) -> Tensor:
    """Return 3/4 of the nearest pixel plus 1/4 of the second nearest one."""
    before, after = _neighbours(x, axis)
    even, odd = 0.75 * x + 0.25 * before, 0.75 * x + 0.25 * after
    return torch.stack([even, odd], axis + 1).flatten(axis, axis + 1)


def _halved(x: Tensor, axis: int) -> Tensor:
    """Return 3/8 of both pixels of each pair plus 1/8 of the pixels next to the pair."""
    pairs = x.unflatten(axis, (-1, 2))
    even, odd = pairs.select(axis + 1, 0), pairs.select(axis + 1, 1)
    before, after = _neighbours(odd, axis)[0], _neighbours(even, axis)[1]
    return 0.375 * (even + odd) + 0.125 * (before + after)


def _neighbours(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return the pixels before and after each pixel, with zeros outside the image."""
    size = x.shape[axis]
    padded = F.pad(x, [*[0, 0] * (x.ndim - 1 - axis), 1, 1])
    return padded.narrow(axis, 0, size), padded.narrow(axis, 2, size)
