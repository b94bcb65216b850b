import numpy as np
import pytest
import torch

from remuda.errors import UserError
from remuda.scores import distances
from remuda.scores.classes import (
    class_diversities,
    class_frechet_distances,
    class_kernel_distances,
    collapsed_classes,
    mean_distance,
)
from remuda.scores.fid import frechet_distance
from remuda.scores.gaussian import Gaussian
from remuda.scores.kid import kernel_distance
from remuda.tensors import random

from .samples import DEVICES, normal

KEY = random.key(5, "test")


def herd(device="cpu"):
    """Return three classes of features; generated class 1 is shifted, class 2 nearly constant."""
    real_labels, fake_labels = torch.arange(120) % 3, torch.arange(90) // 30
    real = normal(120, 6, 0) + 4.0 * real_labels[:, None]
    fake = normal(90, 6, 1) + 4.0 * fake_labels[:, None]
    fake[fake_labels == 1] += 1.0
    fake[fake_labels == 2] = real[2] + 0.01 * normal(30, 6, 2)
    return real.to(device), real_labels.to(device), fake.to(device), fake_labels.to(device), 3


@pytest.mark.parametrize("device", DEVICES)
def test_each_class_is_scored_separately(device):
    data = herd(device)
    real, real_labels, fake, fake_labels, _ = data
    pairs = [(real[real_labels == c], fake[fake_labels == c]) for c in range(3)]
    fids = [frechet_distance(Gaussian.of(a), Gaussian.of(b)) for a, b in pairs]
    assert class_frechet_distances(*data) == pytest.approx(fids, rel=1e-9)
    keys = [int(random.fold(torch.tensor(KEY), c)) for c in range(3)]
    expected = [kernel_distance(a, b, 5, 20, key=k) for (a, b), k in zip(pairs, keys, strict=True)]
    found = class_kernel_distances(*data, num_subsets=5, subset_size=20, key=KEY)
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other)
    assert found[0][0] < found[1][0]


@pytest.mark.parametrize("device", DEVICES)
def test_diversity_finds_the_collapsed_class(device):
    ratios = class_diversities(*herd(device))
    assert ratios[:2] == pytest.approx([1, 1], abs=0.15) and ratios[2] < 0.02
    assert collapsed_classes(ratios, ("cat", "dog", "frog")) == ["frog"]
    assert collapsed_classes(ratios, ("cat", "dog", "frog"), threshold=0.001) == []


def test_mean_distance_by_hand():
    rows = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 8.0]])
    assert mean_distance(rows) == pytest.approx((5 + 8 + 5) / 3)


def test_loops_agree(monkeypatch):
    monkeypatch.setattr(distances, "_BLOCK", 50)
    rows = normal(30, 5, shift=100)
    points = rows.double().numpy()
    pairs = [(a, b) for i, a in enumerate(points) for j, b in enumerate(points) if i != j]
    expected = np.mean([np.linalg.norm(a - b) for a, b in pairs])
    assert mean_distance(rows) == pytest.approx(expected, rel=1e-9)


def test_repeated_images():
    """A class that repeats k images reaches about 1 - 1/k; a single image gives 0, not an error."""
    real = normal(400, 8)
    zeros, fakes = torch.zeros(400, dtype=torch.int64), torch.zeros(100, dtype=torch.int64)
    for k in (1, 2, 5, 10):
        (ratio,) = class_diversities(real, zeros, real[:k].repeat(100 // k, 1), fakes, 1)
        assert ratio == (0 if k == 1 else pytest.approx(1 - 1 / k, abs=0.2))


def test_invalid_input_is_an_error():
    real, real_labels, fake, fake_labels, _ = herd()
    scores = (
        class_frechet_distances,
        class_diversities,
        lambda *data: class_kernel_distances(*data, subset_size=10, key=KEY),
    )
    broken = fake.clone()
    broken[4] = torch.nan
    for score in scores:
        for args, match in [
            ((real, real_labels, fake, fake_labels, 4), "real images of class 3, but there are 0"),
            (
                (real, real_labels, fake, fake_labels.clamp(max=1), 3),
                "generated images of class 2, but there are 0",
            ),
            ((real, real_labels, broken, fake_labels, 3), "generated images contain NaN"),
            ((real, real_labels[:-1], fake, fake_labels, 3), "must be 120 whole numbers"),
            ((real, real_labels, fake, fake_labels, 2), "run from 0 to 2, but there are 2 classes"),
            (
                (real, real_labels, fake[:, :5], fake_labels, 3),
                "6 features each, but generated images have 5",
            ),
        ]:
            with pytest.raises(UserError, match=match):
                score(*args)
    fake[fake_labels == 2] = 1.0
    for score in (scores[0], scores[2]):
        with pytest.raises(UserError, match="all generated images of class 2 are equal"):
            score(real, real_labels, fake, fake_labels, 3)
    real[real_labels == 2] = 1.0
    with pytest.raises(UserError, match="all real images of class 2 are equal"):
        class_diversities(real, real_labels, fake, fake_labels, 3)
    with pytest.raises(UserError, match="at least 100 real images of class 0, but there are 40"):
        class_kernel_distances(*herd(), key=KEY)
