"""Augment images to keep a discriminator from memorising a small data set."""

import math

import torch
from torch import Tensor, nn

from remuda.tensors import random

# Values that replace the draws of images that do not receive a change.
NO_CHANGE = 0.5  # the middle of the range of shifts and colours
OUTSIDE = 2.0  # a centre so far outside the image that nothing is cut


class Augmented(nn.Module):
    """Change every image at random before the discriminator receives it.

    The changes are those of Zhao et al. 2020: new brightness, saturation and contrast, a shift,
    and a square that is set to zero. Each pass draws new changes for every image. Fakes are treated
    like real images, and gradients flow through the changes, so the generator does not learn to
    imitate them. As in dropout, the random stream is a buffer that advances with every pass.

    If the augmentation is adaptive (Karras et al. 2020), each image receives each change with the
    probability in the buffer ``ada_probability``, which ``adapted`` updates.
    """

    key: Tensor
    ada_probability: Tensor  # exists only if the augmentation is adaptive
    num_batches = 1  # see remuda.networks.batches

    def __init__(
        self,
        network: nn.Module,
        shift: float = 0.0,
        cutout: float = 0.0,
        colour: float = 0.0,
        is_adaptive: bool = False,
    ):
        super().__init__()
        self.network = network
        self.shift = shift  # largest shift, as a fraction of the image's side
        self.cutout = cutout  # side of the square, as a fraction of the image's side
        self.colour = colour  # strength of the changes of colour, 0 to 1
        self.is_adaptive = is_adaptive
        self.register_buffer("key", torch.randint(1 << 62, ()))
        self.joins_always = getattr(network, "joins_always", False)
        if is_adaptive:
            self.register_buffer("ada_probability", torch.zeros(()))

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        if self.training:
            images = self.augment(images)
        return self.network(images, labels)

    def augment(self, images: Tensor) -> Tensor:
        """Return the images (b, C, H, W) with new random changes, and advance the stream."""
        shift, cutout, colour = self._draw(len(images))
        if self.colour:
            images = recoloured(images, colour, self.colour)
        if self.shift:
            images = shifted(images, shift, self.shift)
        if self.cutout:
            images = cut(images, cutout, self.cutout)
        return images

    def _draw(self, num_images: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the draws for the shift (2, b), the cut (2, b) and the colour (3, b)."""
        *keys, after = random.chain(self.key, self.num_batches)
        # A longer draw starts with the shorter one, so shifts and cuts do not depend on the rest.
        num_draws = 7 if self.colour else 4
        if self.is_adaptive:
            num_draws = 12
        draws = random.uniform(torch.stack(keys), (num_draws, num_images // self.num_batches))
        self.key.copy_(after)
        draws = draws.transpose(0, 1).flatten(1)  # (draws, images)
        shift, cutout, colour = draws[:2], draws[2:4], draws[4:7]
        if self.is_adaptive:
            is_applied = draws[7:] < self.ada_probability  # (changes, images)
            shift = shift.where(is_applied[0], NO_CHANGE)
            cutout = cutout.where(is_applied[1], OUTSIDE)
            colour = colour.where(is_applied[2:], NO_CHANGE)
        return shift, cutout, colour


def too_small_changes(shape: tuple[int, ...], shift: float, cutout: float) -> dict[str, float]:
    """Return the changes that are chosen, but round to 0 pixels of images of this shape.

    Each name maps to a value that is large enough. A shift needs one pixel along either side, a
    cutout along both.
    """
    _, height, width = shape
    sides = {"shift": (shift, max(height, width)), "cutout": (cutout, min(height, width))}
    return {
        name: math.ceil(1000 / side) / 1000
        for name, (part, side) in sides.items()
        if part and not round(part * side)
    }


def adapted(
    buffers: dict[str, Tensor], signs: Tensor, target: float, num_images: float
) -> dict[str, Tensor]:
    """Return the buffers with the probability of changes after one update of the discriminator.

    ``signs`` (b,) are 1 for real images that the discriminator takes for real, -1 for the others.
    A mean above the target is a sign of memorising, and raises the probability by b / num_images.
    A mean below the target lowers it.
    """
    step = (signs.float().mean() - target).sign() * (len(signs) / num_images)
    probability = (buffers["ada_probability"] + step).clamp(0.0, 1.0)
    return buffers | {"ada_probability": probability}


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
        images = _scaled(images, grey, 1.0 + saturation)
    return _scaled(images, images.mean((1, 2, 3), keepdim=True), 1.0 + 0.5 * contrast)


def _scaled(images: Tensor, centres: Tensor, factors: Tensor) -> Tensor:
    """Multiply the distances from the centres by factors (b,); a factor of 1 changes no bit."""
    factors = _per_image(factors)
    return factors * images + (1.0 - factors) * centres


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
