"""Class-parallel is K independent standalone GANs, and samples call the label's own generator."""

import torch

from remuda.data.batches import Batch, Batches
from remuda.engines import Stacked
from remuda.networks import MLP
from remuda.strategies import ClassParallel, Standalone
from remuda.tensors import trees

SETTINGS = dict(batch_size=4, steps_per_round=3)


def make(cls, data, seed=5):
    strategy = cls(**SETTINGS)
    context = strategy.prepare(MLP(latent=4, hidden=8), data.shape, len(data.classes), seed)
    return strategy, context


def shares(data):
    return [(data.labels == k).nonzero()[:, 0] for k in range(len(data.classes))]


def train(strategy, context, engine, batches, rounds=2):
    state = strategy.init(context, engine)
    for t in range(1, rounds + 1):
        state, _ = strategy.round(context, engine, state, batches.draw((t - 1) * 3, 3), t)
    return state


def test_member_zero_equals_a_standalone_gan_on_its_class(toy_data):
    herd = Batches(toy_data, shares(toy_data), members=range(3), batch_size=4, seed=5)
    baseline_batches = Batches(
        toy_data, shares(toy_data)[:1], members=range(1), batch_size=4, seed=5
    )
    state = train(*make(ClassParallel, toy_data), Stacked(3), herd)
    baseline = train(*make(Standalone, toy_data), Stacked(1), baseline_batches)
    assert trees.equal(trees.row(state, 0), trees.row(baseline, 0))


def test_members_do_not_hear_of_each_other(toy_data):
    (strategy, context), engine = make(ClassParallel, toy_data), Stacked(3)
    real = Batches(toy_data, shares(toy_data), members=range(3), batch_size=4, seed=5).draw(0, 3)
    state = strategy.init(context, engine)
    first, _ = strategy.round(context, engine, state, real, 1)
    changed = Batch(real.images.clone(), real.labels)
    changed.images[2] = 255 - changed.images[2]
    second, _ = strategy.round(context, engine, state, changed, 1)
    assert trees.equal(trees.row(first, 0), trees.row(second, 0))
    assert not trees.equal(trees.row(first, 2), trees.row(second, 2))


def test_generate_calls_the_generator_of_the_label(toy_data):
    strategy, context = make(ClassParallel, toy_data)
    engine = Stacked(3)
    state = strategy.init(context, engine)
    noise, labels = torch.randn(5, 4), torch.tensor([2, 0, 2, 1, 0])
    images = strategy.generate(context, engine, state, noise, labels)
    for i, label in enumerate(labels.tolist()):
        pair = trees.row(state, label)
        assert torch.allclose(
            images[i : i + 1],
            context.gan.sample(pair, noise[i : i + 1], labels[i : i + 1]),
            atol=1e-6,
        )
