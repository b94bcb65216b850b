import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remuda.errors import UserError
from remuda.scores import distances
from remuda.scores.manifold import manifold_scores

from .samples import DEVICES, normal


def brute_force(real, fake, k):
    """Loop over the definitions of the two papers."""
    real, fake = real.double().cpu(), fake.double().cpu()

    def distance(a, b):
        return float((a - b).square().sum().sqrt())

    def radii(rows):
        return [
            sorted(distance(a, b) for j, b in enumerate(rows) if j != i)[k - 1]
            for i, a in enumerate(rows)
        ]

    real_radii, fake_radii = radii(real), radii(fake)
    inside = [[distance(x, y) <= r for y in fake] for x, r in zip(real, real_radii, strict=True)]
    reached = [[distance(x, y) <= r for y, r in zip(fake, fake_radii, strict=True)] for x in real]
    return (
        sum(any(row[j] for row in inside) for j in range(len(fake))) / len(fake),
        sum(map(any, reached)) / len(real),
        sum(map(sum, inside)) / (k * len(fake)),
        sum(map(any, inside)) / len(real),
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("k", [1, 3, 5])
def test_loops_agree(k, device, monkeypatch):
    monkeypatch.setattr(distances, "_BLOCK", 100)
    real, fake = normal(40, 4, 0).to(device), normal(30, 4, 1, shift=0.8, scale=0.6).to(device)
    result = manifold_scores(real, fake, k)
    assert result == pytest.approx(brute_force(real, fake, k), rel=1e-12)
    assert all(0 < value < 2 for value in result) and len(set(result)) > 2


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 4), st.floats(0.1, 3))
def test_loops_agree_on_any_draw(seed, k, scale):
    real, fake = normal(12, 2, seed), normal(9, 2, seed + 1, scale=scale)
    assert manifold_scores(real, fake, k) == pytest.approx(brute_force(real, fake, k), rel=1e-12)


def test_numbers_by_hand():
    real = torch.tensor([[0.0], [1.0], [3.0], [10.0]])  # radii 1, 1, 2, 7 for k = 1
    fake = torch.tensor([[0.5], [3.5], [30.0]])  # radii 3, 3, 26.5
    # In real balls: 0.5 in those of 0 and 1; 3.5 in those of 3 and 10; 30 in none.
    # In fake balls: 0 and 1 and 3 (about 0.5 and 3.5); 10 in that of 30.
    assert manifold_scores(real, fake, 1) == pytest.approx((2 / 3, 1.0, 4 / 3, 1.0))


def test_ties_lie_inside_the_ball():
    """Balls are closed: a set covers itself, and each image lies in its own ball and k others."""
    grid = torch.cartesian_prod(torch.arange(5.0), torch.arange(5.0)) / 3 + 7
    assert manifold_scores(grid, grid, 2)[:2] == (1, 1)
    rows = normal(50, 8)
    assert manifold_scores(rows, rows.clone(), 5) == pytest.approx((1, 1, 6 / 5, 1))
    twins = normal(20, 8).repeat(2, 1)  # balls of radius 0
    assert manifold_scores(twins, twins, 1) == pytest.approx((1, 1, 2, 1))


def test_same_distribution_has_density_one():
    result = manifold_scores(normal(1500, 6, 0), normal(1500, 6, 1))
    assert result.density == pytest.approx(1, abs=0.05)
    assert result.coverage == pytest.approx(1 - 2**-5, abs=0.02)  # 1 - (1/2)^k for equal counts
    assert result.precision > 0.7 and result.recall > 0.7


def test_invalid_input_is_an_error():
    good, broken = normal(20, 4), normal(20, 4)
    broken[0, 0] = torch.nan
    for real, fake, match in [
        (good, good[:5], "at least 6 generated images, but there are 5"),
        (good[:5], good, "at least 6 real images"),
        (good, broken, "NaN or infinity"),
        (good, good[:1].expand(20, 4), "all generated images are equal"),
        (good, normal(20, 5), "4 features each, but generated images have 5"),
    ]:
        with pytest.raises(UserError, match=match):
            manifold_scores(real, fake)
    with pytest.raises(UserError, match="num_neighbours must be at least 1"):
        manifold_scores(good, good, 0)
