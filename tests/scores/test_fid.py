import math

import numpy as np
import pytest
import scipy.linalg
import torch
from torchmetrics.image.fid import FrechetInceptionDistance

from remuda.errors import UserError
from remuda.scores.fid import frechet_distance
from remuda.scores.gaussian import Gaussian

from .samples import DEVICES, Passing, normal


def exact(mean, covariance, count=100):
    """Return the Gaussian with exactly this mean and covariance."""
    covariance = torch.as_tensor(covariance, dtype=torch.float64)
    mean = torch.as_tensor(mean, dtype=torch.float64)
    return Gaussian.from_tensors(
        {"count": torch.tensor(count), "mean": mean, "scatter": covariance * (count - 1)}
    )


def rotation(width, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))[0]


def test_numbers_by_hand():
    a, b = exact([1.0, 2.0], [[4.0, 0.0], [0.0, 9.0]]), exact([2.0, 4.0], [[1.0, 0.0], [0.0, 1.0]])
    assert frechet_distance(a, b) == pytest.approx(5 + (2 - 1) ** 2 + (3 - 1) ** 2, rel=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rank", [1, 10, 40])
def test_covariances_that_commute(rank, device):
    """The distance is |m_a - m_b|^2 + sum of (s_a - s_b)^2 over the deviations, at any rank."""
    turn = rotation(40)
    a_deviations = torch.zeros(40, dtype=torch.float64)
    b_deviations = torch.linspace(0, 3, 40, dtype=torch.float64)
    a_deviations[:rank] = torch.linspace(1, 2, rank)
    a = exact(torch.zeros(40), turn @ a_deviations.square().diag() @ turn.T)
    b = exact(torch.ones(40), turn @ b_deviations.square().diag() @ turn.T)
    a, b = (
        Gaussian.from_tensors({k: v.to(device) for k, v in each.tensors().items()})
        for each in (a, b)
    )
    expected = 40 + float((a_deviations - b_deviations).square().sum())
    assert frechet_distance(a, b) == pytest.approx(expected, rel=1e-7)
    assert frechet_distance(b, a) == pytest.approx(expected, rel=1e-7)


def test_covariances_that_do_not_commute():
    """In the plane tr (A B)^(1/2) is (tr AB + 2 (det AB)^(1/2))^(1/2)."""
    a, b = torch.tensor([[2.0, 1.0], [1.0, 3.0]]), torch.tensor([[5.0, -2.0], [-2.0, 1.0]])
    product = a @ b
    root = math.sqrt(float(product.trace()) + 2 * math.sqrt(float(product.det())))
    expected = float(a.trace() + b.trace()) - 2 * root
    found = frechet_distance(exact([0.0, 0.0], a), exact([0.0, 0.0], b))
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_torchmetrics_and_scipy_agree(device):
    real, fake = normal(600, 30, 0).to(device), normal(500, 30, 1, shift=0.3, scale=1.2).to(device)
    ours = frechet_distance(Gaussian.of(real), Gaussian.of(fake))
    metric = FrechetInceptionDistance(feature=Passing(30), normalize=True).set_dtype(torch.float64)
    metric.update(real.cpu().double(), real=True)
    metric.update(fake.cpu().double(), real=False)
    assert ours == pytest.approx(float(metric.compute()), rel=1e-9)
    a, b = np.cov(real.cpu().double().numpy().T), np.cov(fake.cpu().double().numpy().T)
    shift = (real.double().mean(0) - fake.double().mean(0)).square().sum()
    root = np.real(scipy.linalg.sqrtm(a @ b))
    assert ours == pytest.approx(float(shift) + np.trace(a + b - 2 * root), rel=1e-9)


def test_fewer_samples_than_features():
    """tr (A B)^(1/2) is the sum of the singular values of X Y^T, where A = X^T X and B = Y^T Y."""
    real, fake = normal(25, 300, 0), normal(40, 300, 1, shift=0.1)
    x, y = (
        (rows.double() - rows.double().mean(0)) / math.sqrt(len(rows) - 1) for rows in (real, fake)
    )
    root = float(torch.linalg.svdvals(x @ y.T).sum())
    shift = float((real.double().mean(0) - fake.double().mean(0)).square().sum())
    expected = shift + float(x.square().sum() + y.square().sum()) - 2 * root
    found = frechet_distance(Gaussian.of(real), Gaussian.of(fake))
    assert found == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("count", [2, 20, 400])
def test_a_gaussian_is_at_distance_zero_from_itself(count):
    gaussian = Gaussian.of(normal(count, 60))
    distance = frechet_distance(gaussian, gaussian)
    assert 0 <= distance < 1e-6 * float(gaussian.covariance.trace())


def test_invalid_input_is_an_error():
    good = Gaussian.of(normal(20, 4))
    with pytest.raises(UserError, match="at least 2 images on each side, not 1"):
        frechet_distance(good, Gaussian.of(normal(1, 4)))
    with pytest.raises(UserError, match="at least 2 images on each side, not 0"):
        frechet_distance(Gaussian(4), good)
    with pytest.raises(UserError, match="4 features each, but generated images have 5"):
        frechet_distance(good, Gaussian.of(normal(20, 5)))
    for row in (normal(1, 4), torch.zeros(1, 4), torch.full((1, 4), 0.1)):
        with pytest.raises(UserError, match="all images of one side are equal"):
            frechet_distance(good, Gaussian.of(row.expand(50, 4)))
