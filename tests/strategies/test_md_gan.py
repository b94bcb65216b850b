"""MD-GAN: generated batches, feedback, its mean, and swaps."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remuda.data.batches import Batch
from remuda.engines import Metered, Stacked
from remuda.errors import UserError
from remuda.gan.players import apply
from remuda.networks import DCGAN, MLP
from remuda.strategies import MDGAN, Standalone
from remuda.strategies.md_gan_feedback import mean_feedback
from remuda.strategies.md_gan_inputs import batch_places
from remuda.tensors import random, trees

SHAPE = (1, 8, 8)
NETWORKS = MLP(latent=5, hidden=12)


def make(networks=NETWORKS, **options):
    # A large epsilon in Adam: its first steps are otherwise signs, which rounding may turn.
    strategy = MDGAN(batch_size=4, **options)
    return strategy, strategy.prepare(networks, SHAPE, 3, seed=7)


def real(size, steps=2, seed=0):
    torch.manual_seed(seed)
    return Batch(
        torch.randint(0, 256, (size, steps, 4, *SHAPE), dtype=torch.uint8),
        torch.randint(0, 3, (size, steps, 4)),
    )


def test_the_papers_index_rule():
    """X_g = X(n mod k + 1), X_d = X((n + 1) mod k + 1), n = 1, ..., N; our batches start at 0."""
    assert batch_places(torch.ones(5, dtype=torch.bool), 3).tolist() == [
        [1, 2],
        [2, 0],
        [0, 1],
        [1, 2],
        [2, 0],
    ]
    assert batch_places(torch.ones(3, dtype=torch.bool), 1).tolist() == [[0, 0]] * 3
    alive = torch.tensor([True, False, True, True])
    assert batch_places(alive, 2)[alive].tolist() == [[1, 0], [0, 1], [1, 0]]


@pytest.mark.parametrize(("size", "k"), [(1, 1), (2, 1), (3, 1), (4, 2), (10, 3), (25, 4), (50, 5)])
def test_log_is_the_integer_part_of_the_binary_logarithm(size, k):
    assert MDGAN(num_fake_batches="log").num_batches(size) == k


def test_more_batches_than_members_are_refused():
    with pytest.raises(UserError, match="more than the 3 members"):
        MDGAN(num_fake_batches=4).num_members(3, 10)


@pytest.mark.parametrize("networks", [NETWORKS, DCGAN(latent=5, width=8)], ids=["mlp", "dcgan"])
@pytest.mark.parametrize("loss", ["non-saturating", "minimax", "least-squares", "relativistic"])
@pytest.mark.parametrize(("size", "k"), [(1, 1), (3, 1), (3, 2), (4, 4)])
def test_feedback_is_the_gradient_of_the_mean_loss_end_to_end(size, k, loss, networks):
    strategy, context = make(networks, num_fake_batches=k, loss=loss)
    engine = Stacked(size)
    state = strategy.init(context, engine)
    everyone = torch.ones(size, dtype=torch.bool)
    now = trees.row(strategy.iterations(context, engine, real(size), everyone, t=1), 0)
    noise, classes = now.noise.flatten(0, 1), now.classes.flatten()
    generator = state.server.generator
    fakes = strategy.generate_batches(context, state.server, now)
    _, message, _ = engine.map(
        partial(strategy.compute_feedback, context),
        state.workers,
        fakes,
        now.fake_labels,
        now.images,
        now.labels,
        now.keys,
    )
    # The discriminators that gave feedback: with the weights after their step, and the buffers from
    # before the feedback.
    discriminators = []
    for n in range(size):
        worker = trees.row(state.workers, n)
        unit = now.images[n].float() / 127.5 - 1
        worker, _ = context.gan.update_discriminator(
            worker, unit, fakes[n, -1], now.labels[n], now.keys[n, 0], now.fake_labels[n, 1]
        )
        discriminators.append(worker)
    params = trees.map(lambda leaf: leaf.detach().requires_grad_(), generator.params)
    made, _ = apply(context.gan.generator, params, generator.buffers, noise, classes)
    batches = made.unflatten(0, (k, 4))
    values = []
    for n, worker in enumerate(discriminators):
        mine, buffers, on_real = batches[now.places[n, 0]], worker.buffers, []
        if loss == "relativistic":  # compared with the worker's own images, which pass first
            unit = now.images[n].float() / 127.5 - 1
            discriminator = context.gan.discriminator
            outputs, buffers = apply(discriminator, worker.params, buffers, unit, now.labels[n])
            on_real = [outputs]
        outputs, _ = apply(
            context.gan.discriminator, worker.params, buffers, mine, now.fake_labels[n, 0]
        )
        values.append(context.gan.loss.generator(outputs, *on_real))
    torch.stack(values).mean().backward()
    expected = {name: leaf.grad for name, leaf in params.items()}
    _, _, pull = context.gan.generate(generator, noise, classes)
    shares = torch.zeros(k, size)
    for n in range(size):
        shares[now.places[n, 0], n] = 1 / size
    through_feedback = pull(torch.einsum("kn,n...->k...", shares, message.feedback).flatten(0, 1))
    for name, gradient in through_feedback.items():
        assert torch.allclose(gradient, expected[name], atol=1e-6), name
    server = strategy.apply_feedback(context, state.server, now, message)
    by_hand = context.gan.apply_gradients(generator, expected)
    for name, param in server.generator.params.items():
        assert torch.allclose(param, by_hand.params[name], atol=1e-5), name


def test_half_lives_count_all_k_batches():
    """With k = 3 batches of 4, an update makes 12 images: with this half-life, a weight of 1/2."""
    strategy, context = make(num_fake_batches=3, ema_images=12.0)
    engine = Stacked(3)
    start = strategy.init(context, engine)
    after, _ = strategy.round(context, engine, start, real(3, steps=1), 1)
    for name, average in after.server.average.items():
        old, new = (state.server.generator.params[name] for state in (start, after))
        assert torch.allclose(average, (old + new) / 2, atol=1e-6), name


@pytest.mark.parametrize("networks", [NETWORKS, DCGAN(latent=5, width=8)], ids=["mlp", "dcgan"])
def test_one_member_is_a_standalone_gan(networks):
    """With N = 1 and L = 1: the same draws, the same weights to rounding."""
    (strategy, context), standalone = make(networks), Standalone(batch_size=4)
    engine = Stacked(1)
    state, pair = strategy.init(context, engine), standalone.init(context, engine)
    for t in (1, 2):
        state, ours = strategy.round(context, engine, state, real(1, seed=t), t)
        pair, theirs = standalone.round(context, engine, pair, real(1, seed=t), t)
        for name in theirs:
            assert torch.allclose(ours[name], theirs[name], atol=1e-5), name
    for (name, a), (_, b) in zip(
        trees.named_leaves((state.server.generator, trees.row(state.workers, 0))),
        trees.named_leaves(trees.row((pair.generator, pair.discriminator), 0)),
        strict=True,
    ):
        assert torch.allclose(a.double(), b.double(), atol=2e-4), name


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 9), st.integers(0, 1 << 30), st.sampled_from(["keep", "carry", "reset"]))
def test_a_swap_conserves_every_discriminator(size, seed, optimizer):
    from remuda.population import derangement

    strategy, context = make(swap_optimizer=optimizer)
    engine = Stacked(size)
    workers = strategy.init(context, engine).workers
    marks = torch.arange(float(size))
    workers = trees.map(
        lambda leaf: leaf + marks.reshape(-1, *[1] * (leaf.ndim - 1)).to(leaf.dtype), workers
    )
    source = derangement(seed, torch.ones(size, dtype=torch.bool))
    swapped = strategy.swap(engine, workers, source)
    for name, leaf in swapped.params.items():
        assert torch.equal(leaf, workers.params[name][source])
    expected = {
        "keep": workers.moments,
        "carry": trees.map(lambda leaf: leaf[source], workers.moments),
    }
    # A single worker keeps its discriminator, so nothing is reset.
    reset = torch.zeros_like if size > 1 else torch.clone
    expected["reset"] = trees.map(reset, workers.moments)
    assert trees.equal(swapped.moments, expected[optimizer])


def test_swaps_end_every_second_round():
    (strategy, context), engine = make(swap_every=2), Stacked(3)
    state, swapped = strategy.init(context, engine), []
    for t in (1, 2, 3, 4):
        state, metrics = strategy.round(context, engine, state, real(3, steps=1), t)
        swapped.append("moved_from" in metrics.facts)
    assert swapped == [False, True, False, True]


def test_the_lost_count_for_nothing():
    (strategy, context), engine = make(lose_every=1, swap_every=0), Stacked(3)
    state = strategy.init(context, engine)
    assert [int(strategy.alive(context, engine.size, t).sum()) for t in (1, 2, 3, 4, 9)] == [
        3,
        2,
        1,
        1,
        1,
    ]
    alive = strategy.alive(context, engine.size, 3)
    lost = (~alive).nonzero()[:, 0]
    batch = real(3)
    other = Batch(batch.images.clone(), batch.labels)
    other.images[lost] = 255 - other.images[lost]
    one, _ = strategy.round(context, engine, state, batch, 3)
    two, _ = strategy.round(context, engine, state, other, 3)
    assert trees.equal(one.server, two.server), "the lost members' images no longer matter"
    assert not trees.equal(one.workers, two.workers)
    broken = trees.map(lambda leaf: leaf.clone(), state)
    for leaf in trees.leaves(broken.workers.params):
        leaf[lost] = torch.nan
    three, _ = strategy.round(context, engine, broken, batch, 3)
    assert trees.equal(one.server, three.server), "nor does whether they have diverged"
    with pytest.raises(UserError, match=r"leave run\.members as it was"):
        strategy.resize(5, 4)


def test_feedback_is_divided_by_the_number_of_those_left():
    """Two of three workers are left: each counts one half."""
    (strategy, context), engine = make(num_fake_batches=1), Stacked(3)
    alive = torch.tensor([True, False, True])
    now = trees.row(strategy.iterations(context, engine, real(3), alive, t=1), 0)
    feedback = torch.tensor([1.0, torch.nan, 5.0])[:, None].expand(3, 4)
    assert now.weights.tolist() == [0.5, 0.0, 0.5]
    assert mean_feedback(feedback, now).tolist() == [[3.0] * 4]


@pytest.mark.parametrize("networks", [NETWORKS, DCGAN(latent=5, width=8)], ids=["mlp", "dcgan"])
@pytest.mark.parametrize(
    ("size", "k", "batch"), [(1, 1, 4), (2, 1, 3), (3, 2, 4), (5, 5, 2), (4, 2, 1)]
)
def test_counted_traffic_is_that_of_table_3(size, k, batch, networks):
    if isinstance(networks, DCGAN) and batch == 1:
        pytest.skip("BatchNorm needs more than one image")
    strategy = MDGAN(batch_size=batch, num_fake_batches=k, swap_every=1)
    context = strategy.prepare(networks, SHAPE, 3, seed=0)
    engine = Metered(Stacked(size))
    state = strategy.init(context, engine)
    steps = 3
    torch.manual_seed(0)
    data = Batch(
        torch.randint(0, 256, (size, steps, batch, *SHAPE), dtype=torch.uint8),
        torch.zeros(size, steps, batch).long(),
    )
    after, _ = strategy.round(context, engine, state, data, t=1)
    d = 4 * 64  # bytes of an image in float32
    theta = trees.num_bytes((state.workers.params, state.workers.buffers)) // size
    sent = 2 if k > 1 else 1  # batches per worker
    assert engine.bytes["scatter", "down"] == steps * size * sent * batch * d
    assert engine.bytes["gather", "up"] == steps * size * batch * d
    assert engine.bytes["take", "across"] == (size * theta if size > 1 else 0)
    assert set(engine.bytes) <= {("scatter", "down"), ("gather", "up"), ("take", "across")}
    del after


def test_a_compiled_loop_equals_the_eager_one_and_is_counted():
    strategy, context = make(num_fake_batches=2, swap_every=0)
    ends = []
    for compiled in (True, False):
        engine = Metered(Stacked(3, layout="vmap", compile=compiled))
        state, losses = strategy.round(context, engine, strategy.init(context, engine), real(3), 1)
        state, losses = strategy.round(context, engine, state, real(3, seed=1), 2)
        ends.append((state, losses))
        assert engine.bytes["scatter", "down"] == 2 * 2 * 3 * 2 * 4 * 256
        assert len(engine.engine.programs) == compiled, "compiled once"
    for (name, a), (_, b) in zip(*map(trees.named_leaves, ends), strict=True):
        assert torch.allclose(a.double(), b.double(), atol=2e-4), name


def test_labels_are_the_servers_and_every_worker_knows_them():
    strategy, context = make(MLP(latent=5, hidden=12, conditional=True), num_fake_batches=2)
    engine = Stacked(3)
    everyone = torch.ones(3, dtype=torch.bool)
    drawn = strategy.iterations(context, engine, real(3), everyone, t=1)
    classes = drawn.classes
    assert classes.min() >= 0 and classes.max() < 3 and len(classes.unique()) > 1
    for s in range(2):
        assert torch.equal(drawn.fake_labels[s], classes[s][drawn.places[s]])
    assert random.key(7, "swap", 1) != random.key(7, "lose")
