"""Augment images to keep a discriminator from memorising a small data set."""

import torch
from torch import Tensor, nn

from remuda.tensors import random


class Augmented(nn.Module):
    """Change every image at random before the discriminator receives it.

    The changes are those of Zhao et al. 2020: other colours, a shift, and a square that is set to
    zero. Each pass draws new changes for every image. Fakes are treated like real images, and
    gradients flow through the changes, so the generator does not learn to imitate them. As in
    dropout, the random stream is a buffer that advances with every pass.
    """

    key: Tensor
    num_batches = 1  # see remuda.networks.batches

    def __init__(
        self, network: nn.Module, shift: float = 0.0, cutout: float = 0.0, colour: float = 0.0
    ):
        super().__init__()
        self.network = network
        self.shift = shift  # largest shift, as a fraction of the image's side
        self.cutout = cutout  # side of the square, as a fraction of the image's side
        self.colour = colour  # strength of the changes of colour, 0 to 1
        self.register_buffer("key", torch.randint(1 << 62, ()))
        self.joins_always = getattr(network, "joins_always", False)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        if self.training:
            images = self.augment(images)
        return self.network(images, labels)

    def augment(self, images: Tensor) -> Tensor:
        """Return the images (b, C, H, W) with new random changes, and advance the stream."""
        *keys, after = random.chain(self.key, self.num_batches)
        # Changes of colour come last, so shifts and cuts do not depend on them.
        num_draws = 7 if self.colour else 4
        draws = random.uniform(torch.stack(keys), (num_draws, len(images) // self.num_batches))
        self.key.copy_(after)
        draws = draws.transpose(0, 1).flatten(1)  # (draws, images)
        if self.colour:
            images = recoloured(images, draws[4:], self.colour)
        if self.shift:
            images = shifted(images, draws[:2], self.shift)
        if self.cutout:
            images = cut(images, draws[2:4], self.cutout)
        return images


def recoloured(images: Tensor, draws: Tensor, strength: float) -> Tensor:
    """Change the brightness, then the saturation, then the contrast of images (b, C, H, W).

    ``draws`` (3, b) are uniform in [0, 1). At strength 1, up to 0.5 is added to or subtracted from
    all values, and the distances from the pixel's mean colour and from the image's mean value are
    multiplied by 0 to 2 and by 0.5 to 1.5. Grey images have no saturation.
    """
    brightness, saturation, contrast = ((2.0 * draws - 1.0) * strength).to(images.dtype)
    images = images + 0.5 * _per_image(brightness)
    if images.shape[1] > 1:
        grey = images.mean(1, keepdim=True)
        images = grey + (images - grey) * _per_image(1.0 + saturation)
    mean = images.mean((1, 2, 3), keepdim=True)
    return mean + (images - mean) * _per_image(1.0 + 0.5 * contrast)


def _per_image(numbers: Tensor) -> Tensor:
    """Return numbers (b,) in the shape that broadcasts over images, (b, 1, 1, 1)."""
    return numbers[:, None, None, None]


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
