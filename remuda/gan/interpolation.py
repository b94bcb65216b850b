"""Interpolate between two noises, two labels and two generators, and sample on the way."""

from typing import NamedTuple

import torch
from torch import Tensor

from remuda.gan.gan import GAN
from remuda.gan.lipschitz import vector_names
from remuda.gan.players import Pair
from remuda.networks.layers import one_hot
from remuda.tensors import trees


class End(NamedTuple):
    """One end of n walks."""

    rows: Tensor  # (n,): the pair that generates the image at this end
    noise: Tensor  # (n, latent)
    labels: Tensor  # (n,)


def sample_between(gan: GAN, pairs: Pair, start: End, end: End, weight: float) -> Tensor:
    """Return images (n, C, H, W) on the way from the start (weight 0) to the end (weight 1)."""
    noise = slerp(start.noise, end.noise, weight)
    labels = mix_labels(start.labels, end.labels, weight, gan.num_classes)
    images = noise.new_empty(len(noise), *gan.shape)
    for first, second in sorted(set(zip(start.rows.tolist(), end.rows.tolist(), strict=True))):
        mine = (start.rows == first) & (end.rows == second)
        pair = blend(trees.row(pairs, first), trees.row(pairs, second), weight)
        images[mine] = gan.sample(pair, noise[mine], labels[mine])
    return images


def slerp(start: Tensor, end: Tensor, weight: float) -> Tensor:
    """Interpolate rows (n, d) spherically: turn each row of the start towards the end's row.

    A straight line between two Gaussian vectors passes through vectors that are too short for
    Gaussian noise. Rows with the same or opposite directions are interpolated linearly.
    """
    cosine = torch.cosine_similarity(start, end, dim=1)[:, None].clamp(-1, 1)
    angle = torch.acos(cosine)
    sine = torch.sin(angle)
    is_line = sine < 1e-3
    sine = torch.where(is_line, 1.0, sine)
    turned = torch.sin((1 - weight) * angle) / sine * start + torch.sin(weight * angle) / sine * end
    return torch.where(is_line, torch.lerp(start, end, weight), turned)


def mix_labels(start: Tensor, end: Tensor, weight: float, num_classes: int) -> Tensor:
    """Return labels (n,) if both ends have the same; otherwise mixtures (n, num_classes)."""
    if torch.equal(start, end):
        return start
    return torch.lerp(one_hot(start, num_classes), one_hot(end, num_classes), weight)


def blend(start: Pair, end: Pair, weight: float) -> Pair:
    """Interpolate the weights, buffers and moving averages of two generators linearly.

    The result is only for sampling.
    """
    first, second = start.generator, end.generator
    generator = first._replace(
        params=_blend(first.params, second.params, weight),
        buffers=_blend(first.buffers, second.buffers, weight),
    )
    return Pair(generator, generator, _blend(start.average, end.average, weight))


def _blend(start: dict[str, Tensor], end: dict[str, Tensor], weight: float) -> dict[str, Tensor]:
    blended, vectors = {}, vector_names(start)
    for name, first in start.items():
        second = end[name]
        if not first.is_floating_point():  # random streams of dropout, which sampling ignores
            blended[name] = first
            continue
        if name in vectors and (first * second).sum() < 0:  # the signs of these are arbitrary
            second = -second
        blended[name] = torch.lerp(first, second, weight)
    return blended


def have_common_layers(first: Pair, second: Pair) -> bool:
    """Return whether two generators have the same weights in at least one layer."""
    other = second.generator.params
    return any(
        param.ndim > 1 and torch.equal(param, other[name])
        for name, param in first.generator.params.items()
    )
