"""Evolve the weights of a mixture of generators with a (1+1)-ES to approach the real images.

The distance is the same as in KID: the squared maximum mean discrepancy of features with the kernel
(x.y / d + 1)^3. For a mixture it is a quadratic function of the weights, so one set of samples per
generator serves all weights:

    distance(w) = w' A w - 2 w' b + c

A holds the mean kernels between generators, b those between generators and real images, and c is
the mean kernel between real images.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Kernels(NamedTuple):
    """Mean kernels between samples; unbiased, because no sample is paired with itself."""

    within: Tensor  # (s, s) between generators
    across: Tensor  # (s,) between generators and real images
    real: Tensor  # between real images


def kernels(features: Tensor, real: Tensor) -> Kernels:
    """Return the mean kernels for features of s generators (s, n, d) and real images (m, d)."""
    num, count, width = features.shape
    flat = features.reshape(num * count, width)
    between = _kernel(flat, flat).reshape(num, count, num, count)
    sums = between.sum((1, 3))
    own = torch.diagonal(between, dim1=0, dim2=2)  # (n, n, s)
    inside = (sums.diagonal() - torch.diagonal(own, dim1=0, dim2=1).sum(1)) / (count * (count - 1))
    same = torch.eye(num, dtype=torch.bool, device=sums.device)
    within = torch.where(same, inside, sums / count**2)
    among = _kernel(real, real)
    truth = (among.sum() - among.diagonal().sum()) / (len(real) * (len(real) - 1))
    return Kernels(within, _kernel(flat, real).reshape(num, count, -1).mean((1, 2)), truth)


def _kernel(a: Tensor, b: Tensor) -> Tensor:
    # Products in float32 are accurate enough: their errors change the means of the cubes by less
    # than float32 can resolve.
    return ((a @ b.T).double() / a.shape[1] + 1.0) ** 3


def distance(weights: Tensor, means: Kernels) -> Tensor:
    """Return the distance of a mixture (s,) to the real images; it is about 0 for real images."""
    weights = weights.double()
    return weights @ means.within @ weights - 2.0 * weights @ means.across + means.real


def uniform(present: Tensor) -> Tensor:
    """Return equal weights for the present generators."""
    return present.float() / present.sum(-1, keepdim=True)


def mutated(weights: Tensor, present: Tensor, noise: Tensor, scale: float) -> Tensor:
    """Add Gaussian steps of this scale to the weights, then clip at 0 and normalise to sum 1.

    If no positive weight is left, return the weights unchanged.
    """
    moved = torch.relu(weights + scale * noise) * present
    total = moved.sum()
    return torch.where(total > 0, moved / total.clamp(min=1e-30), weights)


def improve(
    weights: Tensor, present: Tensor, noise: Tensor, scale: float, means: Kernels
) -> tuple[Tensor, Tensor]:
    """Mutate the weights once; return the better of the old and new weights, and their distance."""
    other = mutated(weights, present, noise, scale)
    before, after = distance(weights, means), distance(other, means)
    return torch.where(after < before, other, weights), torch.minimum(after, before)


def draw(weights: Tensor, noise: Tensor) -> Tensor:
    """Choose a generator for each row of noise (n, latent) with probabilities ``weights``.

    The choice depends only on that row. The fractional part of a large sum is practically
    independent of the noise itself, so every generator receives all kinds of noise.
    """
    place = (1000.0 * noise.double().sum(1)).remainder(1.0)
    steps = weights.double().cumsum(0)
    return torch.searchsorted(steps / steps[-1], place, right=True).clamp(max=len(weights) - 1)
