"""Compute the kernel distance; with Inception features it is the KID.

Binkowski et al., "Demystifying MMD GANs", 2018, define it as the squared maximum mean discrepancy
between the features of real and generated images, with the kernel k(x, y) = (x.y / d + 1)^3. The
estimate on random subsets has no bias.
"""

import torch
from torch import Tensor

from remuda.errors import UserError
from remuda.scores.checks import check_features, check_widths
from remuda.tensors import random

_BLOCK = 1 << 24  # kernel values in memory at once


def kernel_distance(
    real: Tensor, fake: Tensor, num_subsets: int = 100, subset_size: int = 1000, *, key: int
) -> tuple[float, float]:
    """Return the mean and standard deviation of the estimates on ``num_subsets`` pairs of subsets.

    ``key`` draws each subset without replacement, separately from real and from fake; different
    subsets may share images. The estimates have no bias: apart from chance, the mean does not
    depend on the number of images, and it may be slightly below 0. The standard deviation tells
    how much the estimate of *one* subset varies. It divides by num_subsets, not num_subsets - 1,
    as in the paper's code. The error of the mean is smaller, but not by the square root of
    num_subsets, because the subsets overlap.
    """
    if num_subsets < 1 or subset_size < 2:
        raise UserError(
            f"a kernel distance needs at least 1 subset of at least 2 images, not {num_subsets} "
            f"of {subset_size}: raise num_subsets or subset_size"
        )
    check_features(real, "real images")
    check_features(fake, "generated images")
    check_widths(real.shape[1], fake.shape[1])
    for features, name in ((real, "real"), (fake, "generated")):
        if len(features) < subset_size:
            raise UserError(
                f"subsets of {subset_size} images cannot be drawn from {len(features)} {name} "
                f"images: use more images, or a subset_size of at most {len(features)}"
            )
    fake = fake.to(real.device)
    streams = torch.tensor(key, device=real.device)
    estimates = []
    for subset in range(num_subsets):
        stream = random.fold(streams, subset)
        chosen_real = random.permutation(random.fold(stream, 0), len(real))[:subset_size]
        chosen_fake = random.permutation(random.fold(stream, 1), len(fake))[:subset_size]
        estimates.append(squared_discrepancy(real[chosen_real], fake[chosen_fake]))
    values = torch.stack(estimates)
    return float(values.mean()), float(values.std(correction=0))


def squared_discrepancy(x: Tensor, y: Tensor) -> Tensor:
    """Return the unbiased estimate of MMD^2 from all of x (n, d) and y (m, d), a float64 scalar."""
    x, y = x.double(), y.double()
    return _mean_of_pairs(x) + _mean_of_pairs(y) - 2 * _sum(x, y) / (len(x) * len(y))


def _mean_of_pairs(x: Tensor) -> Tensor:
    """Return the mean kernel value over all pairs of different rows."""
    own = _kernel(x.square().sum(1), x.shape[1]).sum()
    return (_sum(x, x) - own) / (len(x) * (len(x) - 1))


def _sum(x: Tensor, y: Tensor) -> Tensor:
    """Return the sum of the kernel values between all rows of x and all rows of y."""
    num_rows = max(1, _BLOCK // len(y))
    blocks = [_kernel(rows @ y.T, y.shape[1]).sum() for rows in x.split(num_rows)]
    return torch.stack(blocks).sum()


def _kernel(products: Tensor, width: int) -> Tensor:
    base = products / width + 1.0
    return base * base * base  # several times faster than a power
