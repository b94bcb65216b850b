"""Mixtures: distances by hand and against a mixture that is really drawn; the (1+1)-ES."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remuda.population.mixture import Kernels, distance, draw, improve, kernels, mutated, uniform
from remuda.scores.kid import kernel_distance

THREE = torch.ones(3, dtype=torch.bool)


def test_kernels_by_hand():
    """One feature: k(x, y) = (xy + 1)^3."""
    features = torch.tensor([[[0.0], [1.0]], [[2.0], [-1.0]]])  # two generators, two samples each
    means = kernels(features, torch.tensor([[1.0], [3.0]]))
    assert means.within.tolist() == [[1.0, (1 + 1 + 27 + 0) / 4], [(1 + 1 + 27 + 0) / 4, -1.0]]
    assert means.across.tolist() == [(1 + 1 + 8 + 64) / 4, (27 + 343 + 0 - 8) / 4]
    assert means.real == 64.0


def test_distance_by_hand():
    means = Kernels(
        torch.tensor([[1.0, 2.0], [2.0, 3.0]]).double(),
        torch.tensor([0.5, 1.0]).double(),
        torch.tensor(4.0),
    )
    assert (
        distance(torch.tensor([0.25, 0.75]), means)
        == 0.0625 + 2 * 0.375 + 3 * 0.5625 - 2 * 0.875 + 4
    )


def test_one_generator_has_its_kernel_distance():
    torch.manual_seed(0)
    fake, real = torch.randn(60, 5), 1.5 * torch.randn(60, 5) + 0.3
    mean, _ = kernel_distance(real, fake, subset_size=60, key=3)  # every subset is the whole
    assert torch.isclose(
        distance(torch.ones(1), kernels(fake[None], real)), torch.tensor(mean).double(), rtol=1e-5
    )


def test_a_mixtures_distance_is_that_of_its_samples():
    torch.manual_seed(0)
    parts = torch.stack([torch.randn(800, 3), torch.randn(800, 3) + 2.0])
    real = torch.cat([torch.randn(600, 3), torch.randn(200, 3) + 2.0])
    weights = torch.tensor([0.75, 0.25])
    drawn = torch.cat([parts[0, :600], parts[1, :200]])
    expected = distance(torch.ones(1), kernels(drawn[None], real))
    got = distance(weights, kernels(parts, real))
    far = distance(torch.tensor([0.0, 1.0]), kernels(parts, real))
    assert abs(got - expected) < 0.05 * far


@settings(max_examples=50)
@given(st.integers(1, 6), st.integers(0, 1000))
def test_mutation_keeps_weights_a_distribution_of_those_present(size, seed):
    generator = torch.Generator().manual_seed(seed)
    present = torch.rand(size, generator=generator) < 0.7
    present[0] = True
    weights = uniform(present)
    other = mutated(weights, present, torch.randn(size, generator=generator), 0.5)
    assert (
        torch.isclose(other.sum(), torch.tensor(1.0))
        and (other >= 0).all()
        and (other[~present] == 0).all()
    )


def test_mutation_by_hand():
    weights = torch.tensor([0.2, 0.3, 0.5])
    other = mutated(weights, THREE, torch.tensor([-30.0, 10.0, 10.0]), 0.01)
    assert torch.allclose(other, torch.tensor([0.0, 0.4, 0.6]))
    assert torch.equal(mutated(weights, THREE, torch.full((3,), -100.0), 0.01), weights), (
        "nothing would be left"
    )


def test_only_better_weights_are_kept_and_the_best_mixture_is_found():
    torch.manual_seed(0)
    real = torch.randn(200, 2)
    features = torch.stack([torch.randn(200, 2) + shift for shift in (0.0, 3.0, -4.0)])
    means, weights, last = kernels(features, real), uniform(THREE), torch.tensor(torch.inf)
    for _ in range(400):
        weights, now = improve(weights, THREE, torch.randn(3), 0.05, means)
        assert now <= last and torch.isclose(now, distance(weights, means))
        last = now
    assert weights[0] > 0.9


def test_samples_are_drawn_by_weight_each_from_its_own_noise():
    noise = torch.randn(20_000, 8, generator=torch.Generator().manual_seed(0))
    weights = torch.tensor([0.5, 0.0, 0.3, 0.2])
    slots = draw(weights, noise)
    shares = torch.bincount(slots, minlength=4) / len(noise)
    assert (shares - weights).abs().max() < 0.02 and shares[1] == 0
    assert torch.equal(draw(weights, noise[5:9]), slots[5:9])
    for slot in (0, 2, 3):  # no generator is left with a part of the noise
        assert (
            noise[slots == slot].mean().abs() < 0.02
            and (noise[slots == slot].std() - 1).abs() < 0.02
        )
