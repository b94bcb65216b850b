"""Which member generates which image, on hand-made numbers."""

import pytest
import torch

from remuda.engines import Stacked
from remuda.networks import MLP
from remuda.population import mixture
from remuda.strategies import FLGAN, MDGAN, Cellular, ClassParallel, Standalone
from remuda.tensors import trees

LABELS = torch.tensor([2, 0, 1, 2, 2])
NOISE = torch.linspace(-1, 1, 5)[:, None] * torch.tensor([1.0, 0.3])


def make(kind, size, **settings):
    strategy = kind(batch_size=4, **settings)
    context = strategy.prepare(MLP(latent=2, hidden=4), (1, 8, 8), 3, seed=1)
    engine = Stacked(size)
    return strategy, context, engine, strategy.init(context, engine)


@pytest.mark.parametrize(
    ("kind", "size", "settings", "expected"),
    [
        (ClassParallel, 3, {}, [2, 0, 1, 2, 2]),
        (Standalone, 1, {}, [0, 0, 0, 0, 0]),
        (MDGAN, 3, {}, [0, 0, 0, 0, 0]),
        (FLGAN, 3, {}, [0, 0, 0, 0, 0]),
        (FLGAN, 3, dict(sync="generator"), [0, 0, 0, 0, 0]),
        (FLGAN, 3, dict(sync="discriminator"), [0, 1, 2, 0, 1]),
        (FLGAN, 2, dict(sync="discriminator"), [0, 1, 0, 1, 0]),
    ],
)
def test_authors(kind, size, settings, expected):
    strategy, _, engine, state = make(kind, size, **settings)
    assert strategy.authors(engine, state, NOISE, LABELS).tolist() == expected


def test_cells_of_the_best_neighbourhood_generate_by_its_weights():
    strategy, _, engine, state = make(Cellular, 4)
    state = state._replace(
        distance=torch.tensor([0.1, 2.0, 1.0, 4.0]).double(),
        alive=torch.tensor([False, True, True, True]),  # cell 0 is closest, but lost
        around=torch.tensor([[0, 1, 2], [1, 0, 3], [2, 3, 1], [3, 2, 1]]),
        weights=torch.tensor([[1.0, 0, 0], [1, 0, 0], [0.5, 0.25, 0.25], [1, 0, 0]]),
    )
    noise = torch.randn(4000, 2, generator=torch.Generator().manual_seed(0))
    authors = strategy.authors(engine, state, noise, torch.zeros(4000).long())
    shares = torch.bincount(authors, minlength=4) / 4000
    assert torch.allclose(shares, torch.tensor([0.0, 0.25, 0.5, 0.25]), atol=0.03)
    slots = mixture.draw(state.weights[2], noise)
    assert torch.equal(authors, torch.tensor([2, 3, 1])[slots])


def test_averaged_generators_are_the_mean_of_all_members():
    strategy, context, engine, state = make(FLGAN, 2)
    values = torch.tensor([1.0, 4.0])

    def fill(leaf):
        return torch.ones_like(leaf) * values.reshape(-1, *[1] * (leaf.ndim - 1))

    generator = state.generator._replace(params=trees.map(fill, state.generator.params))
    state = state._replace(generator=generator)
    found = strategy.generators(engine, state).generator.params
    assert all((leaf == 2.5).all() for leaf in found.values())
    pair = trees.row(state, 0)
    mean = trees.map(lambda leaf: torch.full_like(leaf, 2.5), pair.generator.params)
    pair = pair._replace(generator=pair.generator._replace(params=mean))
    images = strategy.generate(context, engine, state, NOISE, LABELS)
    assert torch.equal(images, context.gan.sample(pair, NOISE, LABELS))


def test_generators_that_are_not_averaged_are_the_members_own():
    strategy, context, engine, state = make(FLGAN, 2, sync="discriminator")
    generator = state.generator.params
    noisy = trees.map(lambda leaf: leaf + torch.randn_like(leaf), generator)
    state = state._replace(generator=state.generator._replace(params=noisy))
    images = strategy.generate(context, engine, state, NOISE, LABELS)
    for i in range(5):
        own = context.gan.sample(trees.row(state, i % 2), NOISE[i : i + 1], LABELS[i : i + 1])
        assert torch.allclose(images[i : i + 1], own, atol=1e-6)


def test_the_server_of_md_gan_generates_with_its_average():
    strategy, _, engine, state = make(MDGAN, 3, ema=0.5)
    average = trees.map(lambda leaf: leaf + 0.1, state.server.average)
    state = state._replace(server=state.server._replace(average=average))
    pair = trees.row(strategy.generators(engine, state), 0)
    assert trees.equal(pair.average, average)
    assert trees.equal(pair.generator, state.server.generator)
