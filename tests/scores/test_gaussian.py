import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from remuda.errors import UserError
from remuda.scores.gaussian import Gaussian

from .samples import DEVICES, normal


def relative(a, b):
    return float((a - b).abs().max() / b.abs().max())


def test_numbers_by_hand():
    gaussian = Gaussian.of(torch.tensor([[1.0, 0.0], [3.0, 0.0], [5.0, 6.0]]))
    assert gaussian.count == 3 and gaussian.width == 2
    assert gaussian.mean.tolist() == [3.0, 2.0]
    assert gaussian.covariance.tolist() == [[4.0, 6.0], [6.0, 12.0]]


@pytest.mark.parametrize("device", DEVICES)
def test_numpy_agrees(device):
    features = normal(5000, 40).to(device)  # more rows than a chunk
    gaussian = Gaussian.of(features)
    rows = features.cpu().double().numpy()
    assert np.allclose(gaussian.mean.cpu(), rows.mean(0), rtol=1e-12)
    assert np.allclose(gaussian.covariance.cpu(), np.cov(rows.T), rtol=1e-10, atol=1e-13)
    assert gaussian.mean.dtype == gaussian.covariance.dtype == torch.float64
    assert torch.equal(gaussian.covariance, gaussian.covariance.T)


@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
def test_any_batch_size_gives_the_same(batch):
    features = normal(1000, 12, shift=1000.0)  # sums of squares would lose digits
    whole, parts = Gaussian.of(features), Gaussian(12)
    for rows in features.split(batch):
        parts.update(rows)
    assert parts.count == 1000
    assert relative(parts.mean, whole.mean) < 1e-14
    assert relative(parts.covariance, whole.covariance) < 1e-10


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(0, 99))
def test_merging_is_adding(sizes, seed):
    features = normal(sum(sizes) + 2, 3, seed)
    merged = Gaussian.of(features[:2])
    for rows in features[2:].split(sizes):
        part = Gaussian(3)
        part.update(rows)
        merged.merge(part)
    whole = Gaussian.of(features)
    assert merged.count == whole.count
    assert relative(merged.mean, whole.mean) < 1e-12
    assert relative(merged.covariance, whole.covariance) < 1e-10


def test_saved_and_loaded():
    gaussian = Gaussian.of(normal(20, 4))
    again = Gaussian.from_tensors(load(save(gaussian.tensors())))
    assert again.count == 20 and torch.equal(again.mean, gaussian.mean)
    assert torch.equal(again.covariance, gaussian.covariance)
    again.update(normal(5, 4))
    assert again.count == 25 and gaussian.count == 20


def test_damaged_statistics_are_an_error():
    good = Gaussian.of(normal(20, 4)).tensors()
    for name, value in [
        ("mean", good["mean"][:3]),
        ("mean", good["mean"].float()),
        ("count", torch.tensor(-1)),
        ("count", torch.tensor(2.5)),
        ("scatter", good["scatter"] * torch.nan),
    ]:
        with pytest.raises(UserError, match="damaged: delete the file"):
            Gaussian.from_tensors({**good, name: value})
    with pytest.raises(UserError, match="not statistics of features"):
        Gaussian.from_tensors({"mean": good["mean"]})


def test_invalid_input_is_an_error():
    gaussian = Gaussian(4)
    with pytest.raises(UserError, match="add features first"):
        _ = gaussian.mean
    gaussian.update(normal(1, 4))
    with pytest.raises(UserError, match="a covariance at least 2, but these statistics have 1"):
        _ = gaussian.covariance
    broken = normal(5, 4)
    broken[3, 2] = torch.inf
    with pytest.raises(UserError, match="NaN or infinity"):
        gaussian.update(broken)
    assert gaussian.count == 1  # no row of a broken batch is kept
    for wrong in (lambda: gaussian.update(normal(5, 3)), lambda: gaussian.merge(Gaussian(3))):
        with pytest.raises(UserError, match="4 features per image, but the new features have 3"):
            wrong()
    with pytest.raises(UserError, match="matrix of floating-point numbers"):
        gaussian.update(torch.zeros(3, 4, dtype=torch.uint8))
    gaussian.update(torch.zeros(0, 4))
    assert gaussian.count == 1
