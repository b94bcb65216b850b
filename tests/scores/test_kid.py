import numpy as np
import pytest
import torch
from torchmetrics.image.kid import KernelInceptionDistance

from remuda.errors import UserError
from remuda.scores import kid
from remuda.scores.kid import kernel_distance, squared_discrepancy
from remuda.tensors import random

from .samples import DEVICES, Passing, normal

KEY = random.key(3, "test")


def brute_force(x, y):
    """Apply the textbook formula with two loops."""
    x, y = x.double().numpy(), y.double().numpy()
    width, n, m = x.shape[1], len(x), len(y)

    def kernel(a, b):
        return (np.dot(a, b) / width + 1) ** 3

    within_x = sum(kernel(x[i], x[j]) for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    within_y = sum(kernel(y[i], y[j]) for i in range(m) for j in range(m) if i != j) / (m * (m - 1))
    return within_x + within_y - 2 * sum(kernel(a, b) for a in x for b in y) / (n * m)


def test_numbers_by_hand():
    x, y = torch.tensor([[0.0], [1.0]]), torch.tensor([[1.0], [2.0]])
    # within x: (0 + 1)^3 = 1; within y: (2 + 1)^3 = 27; across: 1, 1, 2^3, 3^3
    assert float(squared_discrepancy(x, y)) == pytest.approx(1 + 27 - 2 * (1 + 1 + 8 + 27) / 4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("block", [1, 100, 1 << 24])
def test_brute_force_agrees(device, block, monkeypatch):
    monkeypatch.setattr(kid, "_BLOCK", block)
    x, y = normal(30, 8, 0), normal(20, 8, 1, shift=0.2)
    found = float(squared_discrepancy(x.to(device), y.to(device)))
    assert found == pytest.approx(brute_force(x, y), rel=1e-9)


@pytest.mark.filterwarnings("ignore:Metric `Kernel Inception Distance`")
@pytest.mark.parametrize(("num_subsets", "subset_size"), [(1, 200), (2, 200), (7, 50)])
def test_torchmetrics_agrees(num_subsets, subset_size, monkeypatch):
    real, fake = normal(200, 16, 0), normal(200, 16, 1, shift=0.3)
    streams = [
        random.fold(random.fold(torch.tensor(KEY), i // 2), i % 2) for i in range(2 * num_subsets)
    ]
    orders = iter([random.permutation(stream, 200) for stream in streams])
    monkeypatch.setattr(torch, "randperm", lambda count: next(orders))  # our subsets
    metric = KernelInceptionDistance(
        feature=Passing(16), subsets=num_subsets, subset_size=subset_size, normalize=True
    ).set_dtype(torch.float64)
    metric.update(real.double(), real=True)
    metric.update(fake.double(), real=False)
    expected = [float(value) for value in metric.compute()]
    found = kernel_distance(real, fake, num_subsets, subset_size, key=KEY)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_subsets_are_drawn_by_the_key(device):
    real, fake = normal(60, 4, 0).to(device), normal(50, 4, 1, shift=0.5).to(device)
    mean, std = kernel_distance(real, fake, 3, 10, key=KEY)
    estimates = []
    for subset in range(3):
        stream = random.fold(torch.tensor(KEY), subset)
        places = [
            random.permutation(random.fold(stream, i), n)[:10] for i, n in enumerate((60, 50))
        ]
        assert all(len(place.unique()) == 10 for place in places)
        estimates.append(brute_force(real.cpu()[places[0]], fake.cpu()[places[1]]))
    assert mean == pytest.approx(np.mean(estimates), rel=1e-9)
    assert std == pytest.approx(np.std(estimates), rel=1e-9)
    assert kernel_distance(real, fake, 3, 10, key=KEY) == (mean, std)
    assert kernel_distance(real, fake, 3, 10, key=KEY + 1) != (mean, std)


def test_the_estimate_has_no_bias():
    """Two draws from one distribution have a distance of about 0 at any subset size."""
    real, fake = normal(1500, 6, 0), normal(1500, 6, 1)
    far, _ = kernel_distance(real, normal(1500, 6, 2, shift=0.3), 30, 200, key=KEY)
    for size in (20, 200):
        mean, std = kernel_distance(real, fake, 30, size, key=KEY)
        assert abs(mean) < std and abs(mean) < 0.1 * far


def test_invalid_input_is_an_error():
    good, broken = normal(20, 4), normal(20, 4)
    broken[0, 0] = torch.nan
    for real, fake, match in [
        (good, normal(1, 4), "needs at least 2 generated images, but there is 1"),
        (
            good[:5],
            good,
            "cannot be drawn from 5 real images: use more images, or a subset_size of at most 5",
        ),
        (good, good[:9], "cannot be drawn from 9 generated images"),
        (good, broken, "generated images contain NaN or infinity"),
        (broken, good, "real images contain NaN"),
        (good, good[:1].expand(20, 4), "all generated images are equal"),
        (good, normal(20, 5), "4 features each, but generated images have 5"),
    ]:
        with pytest.raises(UserError, match=match):
            kernel_distance(real, fake, 2, 10, key=KEY)
    for num_subsets, size in [(0, 10), (2, 1)]:
        with pytest.raises(UserError, match="raise num_subsets or subset_size"):
            kernel_distance(good, good, num_subsets, size, key=KEY)
