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
    covariance_a, covariance_b = a.covariance, b.covariance.to(a.mean.device)
    # With A = F F^T and B = G G^T, the trace is the sum of the singular values of F^T G. The
    # eigenvalues of A B would be their squares: of those that are 0, rounding would leave 1e-16,
    # with roots of 1e-8.
    factors = _factor(covariance_a).T @ _factor(covariance_b)
    trace_of_root = torch.linalg.svdvals(factors).sum()
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
