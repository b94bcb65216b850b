"""Augment images to keep a discriminator from memorising a small data set."""

import torch
from torch import Tensor, nn

from remuda.tensors import random


class Augmented(nn.Module):
    """Shift every image and cut a square out of it before the discriminator receives it.

    Each pass draws a new shift and a new square for every image (Zhao et al. 2020). Pixels in the
    square are set to zero. Fakes are treated like real images, and gradients flow through the
    shift and the cut, so the generator does not learn to imitate them. As in dropout, the random
    stream is a buffer that advances with every pass.
    """

    key: Tensor
    num_batches = 1  # see remuda.networks.batches

    def __init__(self, network: nn.Module, shift: float, cutout: float):
        super().__init__()
        self.network = network
        self.shift = shift  # largest shift, as a fraction of the image's side
        self.cutout = cutout  # side of the square, as a fraction of the image's side
        self.register_buffer("key", torch.randint(1 << 62, ()))

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        if self.training:
            *keys, after = random.chain(self.key, self.num_batches)
            draws = random.uniform(torch.stack(keys), (4, len(images) // self.num_batches))
            self.key.copy_(after)
            draws = draws.transpose(0, 1).flatten(1)  # (4, images)
            images = cut(shifted(images, draws[:2], self.shift), draws[2:], self.cutout)
        return self.network(images, labels)


def shifted(images: Tensor, draws: Tensor, part: float) -> Tensor:
    """Shift images (b, C, H, W) down and right, each by -part to part of the image's side.

    ``draws`` (2, b) are uniform in [0, 1). Zeros fill the pixels that the shift uncovers.
    """
    _, channels, height, width = images.shape
    down = _shift_matrix(draws[0], height, part, images)
    right = _shift_matrix(draws[1], width, part, images)
    # One product for each image and direction serves all channels.
    rows = images.transpose(1, 2).flatten(2)  # (b, H, C W)
    columns = (down @ rows).unflatten(2, (channels, width)).flatten(1, 2)  # (b, H C, W)
    return (columns @ right.mT).unflatten(1, (height, channels)).transpose(1, 2)


def _shift_matrix(draws: Tensor, side: int, part: float, images: Tensor) -> Tensor:
    """Return one matrix of zeros and ones per image, (b, side, side).

    Products with this matrix and their gradients are exact, in any order of summation.
    """
    limit, position = round(part * side), torch.arange(side, device=images.device)
    offset = (draws * (2 * limit + 1)).long() - limit
    return (position[:, None] - position == offset[:, None, None]).to(images.dtype)


def cut(images: Tensor, draws: Tensor, part: float) -> Tensor:
    """Set a rectangle of every image to zero; ``part`` is the ratio of its sides to the image's.

    ``draws`` (2, b) are uniform in [0, 1) and place the centre anywhere in the image.
    """
    height, width = images.shape[-2:]
    rows = _is_inside(draws[0], height, part, images)
    columns = _is_inside(draws[1], width, part, images)
    return images.masked_fill(rows[:, None, :, None] & columns[:, None, None, :], 0.0)


def _is_inside(draws: Tensor, side: int, part: float, images: Tensor) -> Tensor:
    """Return which positions along a side the rectangle covers, (b, side)."""
    length = round(part * side)
    # Every start that keeps the centre inside the image is possible. Centres lie on pixels, or
    # between them if the length is even.
    start = (draws * (side + 1 - length % 2)).long() - length // 2
    position = torch.arange(side, device=images.device) - start[:, None]
    return (position >= 0) & (position < length)
