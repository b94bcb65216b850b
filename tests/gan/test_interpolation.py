"""Check interpolation on numbers computed by hand, and at both ends."""

import math

import pytest
import torch

from remuda.gan.interpolation import (
    End,
    blend,
    have_common_layers,
    mix_labels,
    sample_between,
    slerp,
)
from remuda.networks import DCGAN, MLP
from remuda.strategies import Standalone
from remuda.tensors import trees


def test_slerp_turns_a_vector_and_changes_its_length_smoothly():
    start, end = torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.tensor([[0.0, 1.0], [0.0, 2.0]])
    half = math.sqrt(0.5)
    expected = torch.tensor([[half, half], [2 * half, 2 * half]])
    assert torch.allclose(slerp(start, end, 0.5), expected)
    third = torch.tensor([[math.sqrt(3) / 2, 0.5]])  # 30 of 90 degrees
    assert torch.allclose(slerp(start[:1], end[:1], 1 / 3), third)


def test_slerp_keeps_the_length_of_long_noise():
    start, end = torch.randn(2, 3, 1000, generator=torch.Generator().manual_seed(0))
    middle, straight = slerp(start, end, 0.5).norm(dim=1), torch.lerp(start, end, 0.5).norm(dim=1)
    assert torch.all((middle / 1000**0.5 - 1).abs() < 0.1) and torch.all(straight < 0.8 * middle)


def test_slerp_is_exact_at_its_ends():
    start, end = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(1))
    assert torch.equal(slerp(start, end, 0.0), start) and torch.equal(slerp(start, end, 1.0), end)


@pytest.mark.parametrize("other", [1.0, 3.0, -1.0])
def test_slerp_of_parallel_vectors_is_linear(other):
    """Noise with one number has only two directions; the same seed gives the same noise."""
    start = torch.tensor([[2.0, 1.0]])
    assert torch.equal(slerp(start, start, 0.3), start)
    assert torch.allclose(slerp(start, other * start, 0.25), (0.75 + 0.25 * other) * start)


def test_labels_become_mixtures_only_if_they_differ():
    zeros, twos = torch.tensor([0, 0]), torch.tensor([2, 2])
    assert mix_labels(twos, twos, 0.5, 3) is twos
    assert mix_labels(zeros, twos, 0.25, 3).tolist() == [[0.75, 0.0, 0.25]] * 2


def spectral_gan(**settings):
    strategy = Standalone(lipschitz="spectral-both", loss="hinge", ema=0.9)
    return strategy.prepare(MLP(latent=4, hidden=5, **settings), (1, 2, 2), 3, seed=0).gan


def test_blended_generators_have_mean_tensors_and_aligned_singular_vectors():
    gan = spectral_gan()
    first, second = gan.init(0), gan.init(1)
    blended = blend(first, second, 0.25)
    for name, own in first.generator.params.items():
        expected = 0.75 * own + 0.25 * second.generator.params[name]
        assert torch.allclose(blended.generator.params[name], expected)
        assert torch.allclose(blended.average[name], expected)
    vectors = first.generator.buffers
    assert vectors, "the wrapped generator has singular vectors"
    for name, own in vectors.items():
        other = second.generator.buffers[name]
        aligned = 0.75 * own + 0.25 * other * torch.sign((own * other).sum())
        assert torch.allclose(blended.generator.buffers[name], aligned)
    opposite = {name: -vector for name, vector in vectors.items()}
    flipped = first._replace(generator=first.generator._replace(buffers=opposite))
    buffers = blend(first, flipped, 0.5).generator.buffers
    assert all(torch.allclose(buffers[name], vectors[name]) for name in vectors)


@pytest.mark.parametrize("networks", [MLP(latent=4, hidden=5, conditional=True), DCGAN(latent=4)])
def test_both_ends_are_plain_samples_of_their_pairs(networks):
    gan = Standalone(ema=0.9).prepare(networks, (1, 8, 8), 3, seed=0).gan
    pairs = trees.stack([gan.init(seed) for seed in range(3)])
    rows, labels = (torch.tensor([0, 2]), torch.tensor([1, 2])), (torch.tensor([0, 1]),) * 2
    noise = torch.randn(2, 2, 4, generator=torch.Generator().manual_seed(0))
    ends = [End(rows[i], noise[i], labels[i]) for i in range(2)]
    for i, weight in enumerate([0.0, 1.0]):
        images = sample_between(gan, pairs, ends[0], ends[1], weight)
        for j in range(2):
            pair = trees.row(pairs, int(rows[i][j]))
            own = gan.sample(pair, noise[i][j : j + 1], labels[i][j : j + 1])
            assert torch.allclose(images[j : j + 1], own, atol=1e-6)


def test_common_layers_are_equal_weights_and_not_equal_biases():
    gan = Standalone().prepare(MLP(latent=4, hidden=5), (1, 2, 2), 3, seed=0).gan
    first, second = gan.init(0), gan.init(1)
    assert have_common_layers(first, first) and not have_common_layers(first, second)

    def with_first(name):
        params = second.generator.params | {name: first.generator.params[name]}
        return second._replace(generator=second.generator._replace(params=params))

    assert have_common_layers(first, with_first("layers.0.weight"))
    assert not have_common_layers(first, with_first("layers.0.bias"))
