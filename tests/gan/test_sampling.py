"""Each image comes from the pair of its row."""

import pytest
import torch

from remuda.gan import GAN
from remuda.gan.sampling import sample_rows, sample_stacked
from remuda.networks import DCGAN, MLP
from remuda.strategies import Standalone
from remuda.tensors import trees

ROWS = torch.tensor([3, 0, 3, 3, 1])  # row 2 generates nothing


@pytest.mark.parametrize("ema", [0.0, 0.9])
@pytest.mark.parametrize("networks", [MLP(latent=4, hidden=9, conditional=True), DCGAN(latent=4)])
@pytest.mark.parametrize("sample", [sample_rows, sample_stacked])
def test_every_image_comes_from_its_own_pair(networks, sample, ema):
    context = Standalone(ema=ema).prepare(networks, (1, 8, 8), 3, seed=0)
    gan: GAN = context.gan
    pairs = trees.stack([gan.init(seed) for seed in range(4)])
    noise, labels = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
    images = sample(gan, pairs, ROWS, noise, labels)
    assert images.shape == (5, 1, 8, 8)
    for i, row in enumerate(ROWS.tolist()):
        own = gan.sample(trees.row(pairs, row), noise[i : i + 1], labels[i : i + 1])
        assert torch.allclose(images[i : i + 1], own, atol=1e-5)


def test_no_image_is_no_error():
    gan = Standalone().prepare(MLP(latent=4, hidden=9), (1, 8, 8), 3, seed=0).gan
    pairs = trees.stack([gan.init(0)])
    nothing = torch.zeros(0, dtype=torch.int64)
    assert sample_rows(gan, pairs, nothing, torch.zeros(0, 4), nothing).shape == (0, 1, 8, 8)
