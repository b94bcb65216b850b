"""Compute the Fréchet distance between two Gaussians; with Inception features it is the FID.

Heusel et al., "GANs trained by a two time-scale update rule converge to a local Nash equilibrium",
2017. With means m and covariances A, B: |m_a - m_b|^2 + tr A + tr B - 2 tr (A B)^(1/2).
"""

import torch
from torch import Tensor

from remuda.errors import UserError
from remuda.scores.checks import check_spread, check_widths
from remuda.scores.gaussian import Gaussian


def frechet_distance(a: Gaussian, b: Gaussian) -> float:
    """Return the squared Fréchet distance, as FID is reported.

    The distance grows as the number of samples falls, because few samples do not show the whole
    covariance. Compare distances only at equal numbers of samples. Fewer samples than features are
    allowed.
    """
    check_widths(a.width, b.width)
    for gaussian in (a, b):
        _check(gaussian)
    if b.count < a.count:
        # The side with fewer images may have a thinner factor, which makes the product smaller.
        a, b = b, a
    covariance_a, covariance_b = a.covariance, b.covariance.to(a.mean.device)
    factor = _factor(covariance_a)
    # Because F F^T = A, F^T B F has the nonzero eigenvalues of A B. It is symmetric, so they are
    # real, and at least 0 up to rounding.
    product = factor.T @ covariance_b @ factor
    eigenvalues = torch.linalg.eigvalsh((product + product.T) / 2)
    trace_of_root = eigenvalues.clamp(min=0).sqrt().sum()
    means = (a.mean - b.mean.to(a.mean.device)).square().sum()
    distance = means + covariance_a.trace() + covariance_b.trace() - 2 * trace_of_root
    return max(float(distance), 0.0)  # rounding may make the distance of equal Gaussians negative


def _factor(covariance: Tensor) -> Tensor:
    """Return F (d, rank) with F F^T = covariance."""
    eigenvalues, vectors = torch.linalg.eigh(covariance)
    # Leave out eigenvalues of 0. They are computed as rounding noise, and their square roots would
    # be 1e8 times as large.
    noise = len(covariance) * torch.finfo(torch.float64).eps * eigenvalues[-1]
    kept = eigenvalues > noise
    return vectors[:, kept] * eigenvalues[kept].sqrt()


def _check(gaussian: Gaussian) -> None:
    if gaussian.count < 2:
        raise UserError(
            f"a Fréchet distance needs at least 2 images on each side, not {gaussian.count}: "
            "use more images"
        )
    deviation = gaussian.covariance.diagonal().clamp(min=0).max().sqrt()
    check_spread(float(deviation), float(gaussian.mean.abs().max()), "images of one side")
