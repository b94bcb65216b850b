"""What keeps a discriminator from learning few images by heart: it sees them, real and fake, a little changed."""

import torch
from torch import Tensor, nn

from remuda.tensors import random


class Augmented(nn.Module):
    """A discriminator that sees every image shifted, with zeros behind it, and with a square of zeros cut out.

    Both are drawn anew for each image at each pass, as by Zhao et al. 2020: since fakes are treated like real images,
    and gradients find their way back, the generator does not learn to shift and to cut. The random stream lies in a buffer
    that advances with every pass, as that of dropout.
    """

    key: Tensor

    def __init__(self, network: nn.Module, shift: float, cutout: float):
        super().__init__()
        self.network = network
        self.shift, self.cutout = (
            shift,
            cutout,
        )  # at most, and the square's side: parts of the image's sides
        self.register_buffer("key", torch.randint(1 << 62, ()))

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        if self.training:
            draws = random.uniform(self.key, (4, len(images)))
            self.key.copy_(random.fold(self.key, 0))
            images = cut(shifted(images, draws[:2], self.shift), draws[2:], self.cutout)
        return self.network(images, labels)


def shifted(images: Tensor, draws: Tensor, part: float) -> Tensor:
    """Images (b, C, H, W), moved down and to the right by pixels from -part to part of the sides; draws (2, b)."""
    down, right = (
        _shift_matrix(draw, side, part, images)
        for draw, side in zip(draws, images.shape[-2:], strict=True)
    )
    return down @ images @ right.mT


def _shift_matrix(draws: Tensor, side: int, part: float, images: Tensor) -> Tensor:
    """Of each image, (b, 1, side, side): products are exact, and so are their gradients, in any order of summation."""
    most, place = round(part * side), torch.arange(side, device=images.device)
    by = (draws * (2 * most + 1)).long() - most
    return (place[:, None] - place == by[:, None, None, None]).to(images.dtype)


def cut(images: Tensor, draws: Tensor, part: float) -> Tensor:
    """With zeros in a rectangle, whose centre may lie anywhere; its sides are part of the image's; draws (2, b)."""
    rows, columns = (
        _is_near(draw, side, part, images)
        for draw, side in zip(draws, images.shape[-2:], strict=True)
    )
    return images.masked_fill(rows[:, None, :, None] & columns[:, None, None, :], 0.0)


def _is_near(draws: Tensor, side: int, part: float, images: Tensor) -> Tensor:
    length = round(part * side)
    # As many places as keep the rectangle's centre in the image: at pixels, or between them if its length is even.
    start = (draws * (side + 1 - length % 2)).long() - length // 2
    place = torch.arange(side, device=images.device) - start[:, None]
    return (place >= 0) & (place < length)
