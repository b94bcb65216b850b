"""FL-GAN's mean on hand-made numbers, and what stays local."""

import pytest
import torch

from remuda.config import from_dict
from remuda.data.batches import Batch
from remuda.engines import Metered, Stacked
from remuda.errors import UserError
from remuda.gan import Pair, Player
from remuda.gan.optimizers import Moments
from remuda.networks import DCGAN, MLP, ResNet
from remuda.population.distances import class_distances
from remuda.strategies import FLGAN, Standalone
from remuda.strategies.fl_gan import norm_names
from remuda.strategies.fl_gan_messages import join, split
from remuda.tensors import trees
from remuda.training.assemble import assemble

SHAPE = (1, 8, 8)
NETWORKS = MLP(latent=5, hidden=12)


def make(networks=NETWORKS, sizes=(), **options):
    strategy = FLGAN(batch_size=4, steps_per_round=2, **options)
    return strategy, strategy.prepare(networks, SHAPE, 3, seed=7, shares=sizes)


def real(size, steps=2, seed=0):
    torch.manual_seed(seed)
    return Batch(
        torch.randint(0, 256, (size, steps, 4, *SHAPE), dtype=torch.uint8),
        torch.zeros(size, steps, 4).long(),
    )


def rows_differ(rows) -> bool:
    return any(
        not torch.equal(leaf[0], leaf[i])
        for leaf in trees.leaves(rows)
        for i in range(1, len(leaf))
    )


def test_the_mean_is_weighted_by_the_sizes_of_the_data():
    strategy, context = make(sizes=(10, 30))
    engine = Stacked(2)
    generator, discriminator, average, _ = strategy.init(context, engine)
    values = torch.tensor([1.0, 5.0])
    params = trees.map(
        lambda leaf: torch.ones_like(leaf) * values.reshape(-1, *[1] * (leaf.ndim - 1)),
        generator.params,
    )
    pair = Pair(generator._replace(params=params), discriminator, average)
    weights = strategy.weigh(context, 2, t=1)
    sent = strategy.message(context, pair)
    mean = strategy.receive(pair, strategy.average(engine, sent, weights, ())[0])
    assert all(
        torch.equal(leaf, torch.full_like(leaf, 4.0)) for leaf in mean.generator.params.values()
    )  # (10 + 150) / 40


@pytest.mark.parametrize("networks", [NETWORKS, DCGAN(latent=5, width=8)], ids=["mlp", "dcgan"])
def test_one_member_is_a_standalone_gan(networks):
    (strategy, context), standalone = make(networks), Standalone(batch_size=4)
    engine = Stacked(1)
    state, pair = strategy.init(context, engine), standalone.init(context, engine)
    for t in (1, 2):
        state, _ = strategy.round(context, engine, state, real(1, seed=t), t)
        pair, _ = standalone.round(context, engine, pair, real(1, seed=t), t)
    assert trees.equal(state, pair)


def test_a_round_is_training_and_then_the_mean():
    (strategy, context), engine = make(), Stacked(3)
    start = strategy.init(context, engine)
    trained, _ = strategy.train_pairs(context, engine, Pair(*start[:3]), real(3), 1)
    state, _ = strategy.round(context, engine, start, real(3), 1)
    for part in ("generator", "discriminator"):
        ours, theirs = getattr(state, part), getattr(trained, part)
        for name, leaf in ours.params.items():
            assert torch.allclose(leaf, theirs.params[name].mean(0).expand_as(leaf), atol=1e-7)
            assert all(torch.equal(leaf[0], row) for row in leaf)
        assert trees.equal(ours.moments, theirs.moments), "kept"


def test_only_the_active_count():
    strategy, context = make(fraction=0.5, sizes=(1, 2, 3, 4))
    chosen = {tuple((strategy.weigh(context, 4, t) > 0).tolist()) for t in range(1, 40)}
    assert all(sum(one) == 2 for one in chosen) and len(chosen) == 6
    few, context_of_few = make(fraction=0.01)
    assert (few.weigh(context_of_few, 4, 1) > 0).sum() == 1, "at least one"
    engine, state = Stacked(4), strategy.init(context, Stacked(4))
    idle = (strategy.weigh(context, 4, 1) == 0).nonzero()[:, 0]
    batch, other = real(4), real(4)
    other.images[idle] = 255 - other.images[idle]
    one, _ = strategy.round(context, engine, state, batch, 1)
    two, _ = strategy.round(context, engine, state, other, 1)
    assert trees.equal(one.generator.params, two.generator.params)


@pytest.mark.parametrize("sync", ["both", "generator"])
def test_inactive_members_do_not_train(sync):
    (strategy, context), engine = make(fraction=0.5, sync=sync), Stacked(4)
    state = strategy.init(context, engine)
    after, _ = strategy.round(context, engine, state, real(4), 1)
    idle = strategy.weigh(context, 4, 1) == 0
    for part in ("generator", "discriminator"):
        counts = getattr(after, part).moments.steps
        assert counts[idle].tolist() == [0, 0] and counts[~idle].tolist() == [2, 2]
    before, now = (tree.discriminator.params["layers.0.weight"][idle] for tree in (state, after))
    assert torch.equal(before, now) == (sync == "generator")


@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_singular_vectors_are_not_averaged(shift):
    """Their signs are arbitrary: their means would be too short, or zero."""
    (strategy, context), engine = make(lipschitz="spectral", loss="hinge", shift=shift), Stacked(4)
    state, _ = strategy.round(context, engine, strategy.init(context, engine), real(4), 1)
    vectors = {name: leaf for name, leaf in state.discriminator.buffers.items() if "left_" in name}
    assert vectors and all(
        torch.allclose(leaf.norm(dim=1), torch.ones(4)) for leaf in vectors.values()
    )
    assert not rows_differ(state.discriminator.params)
    for t in range(2, 5):
        state, losses = strategy.round(context, engine, state, real(4), t)
    assert losses["discriminator_loss"].isfinite().all()


def test_the_servers_generator_has_singular_vectors_of_one_member():
    options = dict(lipschitz="spectral-both", loss="hinge", ema=0.5)
    (strategy, context), engine = make(**options), Stacked(4)
    state, _ = strategy.round(context, engine, strategy.init(context, engine), real(4), 1)
    served = strategy.generators(engine, state)
    name = "left_layers_0_weight"
    for found, own in (
        (served.generator.buffers, state.generator.buffers),
        (served.average, state.average),
    ):
        assert torch.equal(found[name], own[name])
        assert (own[name][0] - own[name][1]).norm() > 0.1
    assert not rows_differ(served.generator.params)


@pytest.mark.parametrize(
    ("sync", "generators", "discriminators"),
    [("generator", False, True), ("discriminator", True, False)],
)
def test_what_is_not_averaged_stays_local(sync, generators, discriminators):
    (strategy, context), engine = make(sync=sync), Stacked(3)
    state, _ = strategy.round(context, engine, strategy.init(context, engine), real(3), 1)
    assert rows_differ(state.generator.params) == generators
    assert rows_differ(state.discriminator.params) == discriminators
    images = strategy.generate(context, engine, state, torch.randn(6, 5), torch.zeros(6).long())
    assert images.shape == (6, *SHAPE) and images.isfinite().all()


def test_norms_stay_local_and_the_rest_does_not():
    (strategy, context), engine = make(DCGAN(latent=5, width=8), local_norms=True), Stacked(2)
    state, _ = strategy.round(context, engine, strategy.init(context, engine), real(2), 1)
    for player, network in (
        (state.generator, context.gan.generator),
        (state.discriminator, context.gan.discriminator),
    ):
        local = norm_names(network)
        assert any("running_mean" in name for name in local) and any(
            "weight" in name for name in local
        )
        tensors = {**player.params, **player.buffers}
        for name, leaf in tensors.items():
            if leaf.is_floating_point():
                assert torch.equal(leaf[0], leaf[1]) != (name in local), name


def test_the_scales_of_a_conditional_norm_are_part_of_it():
    generator = ResNet(latent=5, width=8, conditional=True).generator((1, 8, 8), 3)
    norm = {name for name, _ in generator.blocks[0].norm1.named_parameters()}
    buffers = {"norm.running_mean", "norm.running_var"}
    found = {name for name in norm_names(generator) if name.startswith("blocks.0.norm1.")}
    assert norm == {"scale", "shift"}
    assert found == {f"blocks.0.norm1.{name}" for name in norm | buffers}
    assert not any("conv" in name for name in norm_names(generator))


def test_moments_and_moving_averages_of_norms_stay_local_too():
    options = dict(local_norms=True, sync_optimizer="average", ema=0.5)
    (strategy, context), engine = make(DCGAN(latent=5, width=8), **options), Stacked(2)
    state, _ = strategy.round(context, engine, strategy.init(context, engine), real(2), 1)
    local = norm_names(context.gan.generator)
    moments = state.generator.moments
    for tree in (moments.first, moments.second, state.average):
        for name, leaf in tree.items():
            assert torch.equal(leaf[0], leaf[1]) != (name in local), name
    with pytest.raises(UserError, match="needs networks with BatchNorm"):
        make(local_norms=True)


@pytest.mark.parametrize("optimizer", ["keep", "average", "reset"])
def test_moments(optimizer):
    (strategy, context), engine = make(sync_optimizer=optimizer), Stacked(2)
    state, _ = strategy.round(context, engine, strategy.init(context, engine), real(2), 1)
    first = state.generator.moments.first
    assert rows_differ(first) == (optimizer == "keep")
    assert all((leaf == 0).all() for leaf in first.values()) == (optimizer == "reset")
    assert (state.generator.moments.steps == 0).all() == (optimizer == "reset")


def test_counted_traffic_is_that_of_table_3():
    (strategy, context), engine = make(), Metered(Stacked(5))
    state = strategy.init(context, engine)
    strategy.round(context, engine, state, real(5), 1)
    model = trees.num_bytes((state.generator.params, state.discriminator.params))  # N (w + theta)
    assert dict(engine.bytes) == {("mean", "up"): model, ("mean", "down"): model}


def test_inactive_members_send_nothing():
    (strategy, context), engine = make(fraction=0.4), Metered(Stacked(5))
    state = strategy.init(context, engine)
    strategy.round(context, engine, state, real(5), 1)
    model = trees.num_bytes((state.generator.params, state.discriminator.params)) // 5
    assert dict(engine.bytes) == {("mean", "up"): 2 * model, ("mean", "down"): 5 * model}


def test_epochs_make_longer_rounds_and_bad_settings_are_refused():
    assert FLGAN(batch_size=10, epochs=3).batches_per_round(95) == 30
    with pytest.raises(UserError, match=r"strategy\.fraction"):
        FLGAN(fraction=0)
    with pytest.raises(UserError, match=r"strategy\.epochs"):
        FLGAN(epochs=0)


def numbered(value, names="wn"):
    return {name: torch.full((2,), value) for name in names}


def player(value):
    moments = Moments(numbered(value + 0.1), numbered(value + 0.2), torch.full((2,), value))
    return Player(numbered(value), numbered(value + 0.3, "bs"), moments)


@pytest.mark.parametrize("has_moments", [True, False])
def test_a_message_replaces_all_tensors_but_local_ones(has_moments):
    """Tensors n and s stay local. Only weights may be compressed, also in the moving average."""
    pair = Pair(player(1.0), player(2.0), numbered(3.0, "wnbs"))
    local = {"generator": frozenset("ns"), "discriminator": frozenset("ns")}
    message = split(pair, local, has_moments=has_moments)
    assert all(set(tensors) == {"w"} for tensors in message.weights.values())
    assert set(message.weights) == set(message.rest) == {"generator", "discriminator", "average"}
    assert set(message.rest["average"]) == set(message.rest["generator"]["buffers"]) == {"b"}
    joined = join(pair, trees.map(lambda leaf: leaf + 10, message))
    for (name, old), (_, new) in zip(*map(trees.named_leaves, (pair, joined)), strict=True):
        is_moment = "moments" in name
        is_sent = has_moments or not is_moment
        is_local = name[-1] in "ns" and not name.endswith("steps")
        assert torch.equal(new, old + 10 * (is_sent and not is_local)), name
    only = split(pair, {"discriminator": frozenset()}, has_moments=False)
    assert set(only.weights) == {"discriminator"} and join(pair, only) == pair


def test_averaged_moments_include_the_number_of_updates():
    """Inactive members have made fewer updates, and receive the numbers of the others."""
    strategy, context = make(sync_optimizer="average", fraction=0.4)
    engine = Stacked(5)
    state, _ = strategy.round(context, engine, strategy.init(context, engine), real(5), 1)
    assert state.generator.moments.steps.tolist() == [2] * 5
    assert not rows_differ((state.generator.moments, state.discriminator.moments))


def test_weights_are_sizes_equal_or_sizes_by_distance():
    """Together, members have 30 images of two classes. Member 0 has both; the others have one."""
    counts = [[20, 20, 0], [10, 0, 0], [0, 10, 0]]
    sizes = (40, 10, 10)
    expected = {"sizes": [40, 10, 10], "equal": [1, 1, 1]}
    expected["distances"] = [40, 10 * 0.5, 10 * 0.5]  # KL divergences of 0, log 2 and log 2
    for name, weights in expected.items():
        strategy = FLGAN(weights=name)
        context = strategy.prepare(NETWORKS, SHAPE, 3, 7, sizes, class_counts=counts)
        found = strategy.weigh(context, 3, t=1)
        assert torch.allclose(found, torch.tensor(weights, dtype=torch.float64))
        half = FLGAN(weights=name, fraction=0.4)
        assert (half.weigh(context, 3, t=1) > 0).sum() == 1, "inactive members count for nothing"
        assert strategy.needs_class_counts == (name == "distances")


def test_distances_compare_with_all_images_not_with_the_mean_member():
    """Of 40 images, 30 have class 0: log(4/3) for a member with only this class, log 4 else."""
    found = class_distances([[30, 0], [0, 10]])
    expected = torch.tensor([4 / 3, 4], dtype=torch.float64).log()
    assert torch.allclose(found, expected)


def test_distances_need_labels_and_class_counts():
    strategy = FLGAN(weights="distances")
    with pytest.raises(UserError, match="no labels of different classes: use sizes or equal"):
        strategy.prepare(NETWORKS, SHAPE, 1, seed=7)
    context = strategy.prepare(NETWORKS, SHAPE, 3, seed=7)
    with pytest.raises(UserError, match="pass class_counts to prepare"):
        strategy.weigh(context, 3, t=1)


def test_a_run_counts_the_classes_of_every_member(tiny):
    tiny["strategy"] |= {"name": "fl-gan", "weights": "distances"}
    tiny["run"]["members"], tiny["data"]["partition"] = 4, "dirichlet"
    herd = assemble(from_dict(tiny))
    counts = torch.tensor(herd.context.class_counts)
    assert counts.sum(1).tolist() == list(herd.context.shares)
    assert counts.sum(0).tolist() == herd.facts.counts
