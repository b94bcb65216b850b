"""Cellular: a cell's steps on hand-made numbers, and the whole round in special cases."""

import pytest
import torch

from remuda.data.batches import Batch
from remuda.engines import Metered, Stacked
from remuda.errors import UserError
from remuda.gan.contest import Sides
from remuda.networks import DCGAN, MLP
from remuda.strategies import Cellular, Standalone
from remuda.strategies.mixtures import MixtureSearch, best_mixture
from remuda.tensors import random, trees

SHAPE = (1, 8, 8)
PLAIN = dict(height=1, width=1, selection="none", replacement="always", lr_mutation=0.0)


def make(networks=None, seed=7, **options):
    options = {"batch_size": 4, "mixture_samples": 6, **options}
    strategy = Cellular(**options)
    return strategy, strategy.prepare(networks or MLP(latent=5, hidden=9), SHAPE, 3, seed=seed)


def rules(**options):
    """The evolution of a cell's individuals."""
    strategy, context = make(**options)
    return strategy.evolution(context.gan)


def real(size, batches=4, seed=0):
    torch.manual_seed(seed)
    shape = size, batches, 4
    return Batch(
        torch.randint(0, 256, (*shape, *SHAPE), dtype=torch.uint8), torch.randint(0, 3, shape)
    )


def rounds(strategy, context, engine, count, batches=4):
    state, lines = strategy.init(context, engine), []
    for t in range(1, count + 1):
        state, metrics = strategy.round(context, engine, state, real(engine.size, batches, t), t)
        lines.append(metrics)
    return state, lines


@pytest.mark.parametrize(
    "networks", [MLP(latent=5, hidden=9), DCGAN(latent=5, width=8)], ids=["mlp", "dcgan"]
)
@pytest.mark.parametrize("selection", ["none", "tournament"])
@pytest.mark.parametrize(
    "options", [{}, dict(ema=0.9), dict(discriminator_steps=2, loss="wasserstein")], ids=str
)
def test_a_grid_of_one_cell_is_a_standalone_gan(networks, selection, options):
    cell, context = make(networks, **{**PLAIN, "selection": selection}, **options)
    standalone = Standalone(batch_size=4, **options)
    state, lines = rounds(cell, context, Stacked(1), 3)
    expected, metrics = rounds(standalone, context, Stacked(1), 3)
    assert trees.equal(trees.row(state.sides.generators.player, 0), expected.generator)
    assert trees.equal(trees.row(state.sides.discriminators.player, 0), expected.discriminator)
    for line, other in zip(lines, metrics, strict=True):
        assert all(torch.allclose(line[name], other[name]) for name in other)
    noise, labels = torch.randn(5, 5), torch.zeros(5, dtype=torch.int64)
    images = cell.generate(context, Stacked(1), state, noise, labels)
    assert torch.equal(images, standalone.generate(context, Stacked(1), expected, noise, labels))


def test_selection_takes_the_winner_with_all_it_has():
    """With everyone in the tournament, the fittest by a separately computed matrix wins."""
    evolution = rules(height=3, width=3, tournament_size=9)
    own, centres = (
        evolution.contest.new_individuals([1]),
        evolution.contest.new_individuals([1, 2, 3, 4, 5]),
    )
    centres.generators.lr[:] = torch.arange(1.0, 6.0)
    present, batch, key = torch.tensor([True, True, True, False, True]), real(1), torch.tensor(99)
    images, labels = batch.images[0, 0], batch.labels[0, 0]
    chosen = evolution.select(own, centres, present, images, labels, key)
    noise = random.normal(random.fold(key, 0), (4, 5))
    losses, _ = evolution.contest.losses(
        centres.generators.player,
        centres.discriminators.player,
        images.float() / 127.5 - 1,
        labels,
        noise,
        key,
    )
    fitness = losses[:, present].mean(1)
    fitness[~present] = torch.inf
    best = int(fitness.argmin())
    if best > 0:  # the cell's own individual has its unchanged rate
        assert chosen.generators.lr.tolist() == [best + 1.0]
    assert trees.equal(
        chosen.generators.player, trees.row(centres.generators.player, slice(best, best + 1))
    )


def test_without_selection_the_cells_own_train():
    evolution = rules(height=3, width=3, selection="none")
    own, centres = (
        evolution.contest.new_individuals([1]),
        evolution.contest.new_individuals([1, 2, 3, 4, 5]),
    )
    batch = real(1)
    there = torch.ones(5, dtype=torch.bool)
    assert (
        evolution.select(
            own, centres, there, batch.images[0, 0], batch.labels[0, 0], torch.tensor(1)
        )
        is own
    )


@pytest.mark.parametrize("population", [1, 3])
def test_the_fitter_stay(population):
    evolution = rules(height=2, width=2, population=population)
    own = evolution.contest.new_individuals(list(range(population)))
    trained = evolution.contest.new_individuals(list(range(10, 10 + population)))
    centres = evolution.contest.new_individuals([0, 20, 21])
    batch, key, there = real(1), torch.tensor(5), torch.ones(3, dtype=torch.bool)
    images, labels = batch.images[0, 0], batch.labels[0, 0]
    kept, fitness = evolution.replace(own, trained, centres, there, images, labels, key)
    both = trees.map(lambda *leaves: torch.cat(leaves), own, trained)
    against = trees.map(lambda mine, theirs: torch.cat([mine, theirs[1:]]), both, centres)
    noise = random.normal(random.fold(key, 0), (4, 5))
    unit = images.float() / 127.5 - 1
    of_g, _ = evolution.contest.losses(
        both.generators.player, against.discriminators.player, unit, labels, noise, key
    )
    _, of_d = evolution.contest.losses(
        against.generators.player, both.discriminators.player, unit, labels, noise, key
    )
    for side, kept_side, losses in zip(both, kept, (of_g, of_d), strict=True):
        best = losses.mean(1).argsort()[:population]
        assert trees.equal(kept_side, trees.row(side, best)), "the centre is the fittest"
    for name, losses in zip(("generator", "discriminator"), (of_g, of_d), strict=True):
        assert torch.allclose(fitness[f"{name}_fitness"], losses.mean(1).min())
    always = rules(height=2, width=2, population=population, replacement="always")
    kept, fitness = always.replace(own, trained, centres, there, images, labels, key)
    assert torch.allclose(fitness["generator_fitness"], of_g.mean(1)[population:].min())
    assert sorted(kept.generators.player.params["layers.0.bias"].sum(1).tolist()) == sorted(
        trained.generators.player.params["layers.0.bias"].sum(1).tolist()
    )


def test_a_network_that_broke_in_training_is_not_kept():
    evolution = rules()
    own = evolution.contest.new_individuals([1])
    broken = trees.map(
        lambda leaf: leaf * torch.nan if leaf.is_floating_point() else leaf,
        evolution.contest.new_individuals([2]),
    )
    centres, batch = evolution.contest.new_individuals([1, 3, 4]), real(1)
    there = torch.ones(3, dtype=torch.bool)
    kept, _ = evolution.replace(
        own,
        broken,
        centres,
        there,
        batch.images[0, 0],
        batch.labels[0, 0],
        torch.tensor(1),
    )
    assert trees.equal(kept, own)


def test_mutation_of_learning_rates():
    """Half of the rates move by a Gaussian step of this scale; negative rates are mirrored."""
    evolution = rules(population=4000)
    lr = torch.full((4000,), 2e-4)
    player = evolution.contest.new_individuals([1])
    chosen = Sides(player.generators._replace(lr=lr), player.discriminators._replace(lr=lr))
    mutated = evolution.mutate(chosen, torch.tensor(3))
    for side in mutated:
        steps = side.lr - lr
        moved = steps != 0
        assert 0.45 < moved.float().mean() < 0.55 and (side.lr > 0).all()
        assert 0.9e-4 < steps[moved].std() < 1.1e-4 and abs(steps[moved].mean()) < 1e-5
    small = evolution.mutate(
        Sides(*(side._replace(lr=lr / 100) for side in chosen)), torch.tensor(3)
    )
    assert all((side.lr > 0).all() and side.lr.max() > 1e-4 for side in small)
    assert not torch.equal(mutated.generators.lr, mutated.discriminators.lr)
    assert rules(lr_mutation=0.0).mutate(chosen, torch.tensor(3)) is chosen


def test_every_second_batch_trains_the_discriminator():
    strategy, _ = make(skip_discriminator=1, batch_size=100, **{**PLAIN, "height": 2, "width": 2})
    assert strategy.batches_per_round(60_000) == 600 and strategy.steps_in(600) == 600
    state, _ = rounds(*make(skip_discriminator=1, **PLAIN), Stacked(1), 1, batches=6)
    assert (
        state.sides.generators.player.moments.steps == 6
        and state.sides.discriminators.player.moments.steps == 3
    )


@pytest.mark.parametrize("skip", [0, 1, 2])
@pytest.mark.parametrize("steps", [1, 3])
def test_batches_and_updates_of_a_round(skip, steps):
    strategy, _ = make(skip_discriminator=skip, discriminator_steps=steps, batch_size=10)
    num = strategy.batches_per_round(1000)
    assert num % (steps + skip) == 0 and abs(num - 100) < steps + skip
    assert strategy.steps_in(num) == num // (steps + skip) * (1 + skip)
    fixed, _ = make(skip_discriminator=skip, discriminator_steps=steps, steps_per_round=12)
    assert fixed.steps_in(fixed.batches_per_round(1000)) == 12


def test_only_neighbours_matter():
    """On a ring of five, a change in cell 2 reaches cells 1 and 3 first, 0 and 4 a round later."""
    strategy, context = make(height=1, width=5, neighbourhood="ring", tournament_size=3)
    engine = Stacked(5)
    state = strategy.init(context, engine)
    weight = state.sides.generators.player.params["layers.4.bias"].clone()
    weight[2] += 5.0
    params = {**state.sides.generators.player.params, "layers.4.bias": weight}
    player = state.sides.generators.player._replace(params=params)
    sides = state.sides._replace(generators=state.sides.generators._replace(player=player))
    other, _ = strategy.round(context, engine, state._replace(sides=sides), real(5), 1)
    plain, _ = strategy.round(context, engine, state, real(5), 1)
    for cell in (0, 4):
        assert trees.equal(trees.row(other.sides, cell), trees.row(plain.sides, cell))


def test_a_schedule_changes_the_neighbourhood_and_resets_its_mixture():
    strategy, context = make(
        height=3, width=3, neighbourhood="none", schedule="2: von-neumann, 4: moore"
    )
    assert strategy.links(context, 9, 1).present.sum(1).tolist() == [1] * 9
    assert strategy.links(context, 9, 3).present.sum(1).tolist() == [5] * 9
    assert strategy.links(context, 9, 4).present.sum(1).tolist() == [9] * 9
    engine = Stacked(9)
    state, _ = rounds(strategy, context, engine, 1)
    assert state.weights.shape == (9, 9) and state.weights[:, 0].tolist() == [1.0] * 9
    state, _ = strategy.round(context, engine, state, real(9), 2)
    assert ((state.weights > 0).sum(1) >= 4).all() and torch.allclose(
        state.weights.sum(1), torch.ones(9)
    )


def test_cells_leave():
    strategy, context = make(height=2, width=2, lose_every=1)
    engine = Stacked(4)
    state, _ = rounds(strategy, context, engine, 3)
    assert state.alive.sum() == 2
    gone = (~state.alive).nonzero()[:, 0].tolist()
    for cell in range(4):
        assert all(int(other) == cell or int(other) not in gone for other in state.around[cell])
    worst = state._replace(distance=torch.where(state.alive, 5.0, -1.0).double())
    assert best_mixture(worst.distance, worst.alive) not in gone


def test_the_model_is_the_best_neighbourhoods_mixture():
    strategy, context = make(height=2, width=2)
    state = strategy.init(context, Stacked(4))
    state = state._replace(
        distance=torch.tensor([3.0, 2.0, 1.0, 4.0]).double(),
        around=torch.tensor([[0, 1, 2], [1, 0, 3], [2, 3, 0], [3, 2, 1]]),
        weights=torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]]),
    )
    noise, labels = torch.randn(6, 5), torch.zeros(6, dtype=torch.int64)
    third = trees.map(lambda leaf: leaf[3, 0], state.sides.generators.player)
    _, single = make(**PLAIN)
    expected = single.gan.sample(single.gan.init(0)._replace(generator=third), noise, labels)
    assert best_mixture(state.distance, state.alive) == 2 and torch.equal(
        strategy.generate(context, Stacked(4), state, noise, labels), expected
    )


def test_weights_are_improved_by_the_features():
    """Cells whose generators make images unlike the data lose weight everywhere."""
    frozen = dict(
        generator_lr=1e-9,
        discriminator_lr=1e-9,
        lr_mutation=0.0,
        selection="none",
        replacement="always",
    )
    strategy, context = make(height=1, width=2, mixture_mutation=0.2, **frozen)
    engine = Stacked(2)
    state = strategy.init(context, engine)
    bias = state.sides.generators.player.params["layers.4.bias"]
    bias[0, 0], bias[1, 0] = -4.0, 4.0  # black, white
    dark = Batch(
        torch.zeros(2, 4, 4, *SHAPE, dtype=torch.uint8), torch.zeros(2, 4, 4, dtype=torch.int64)
    )
    for t in range(1, 25):
        state, metrics = strategy.round(context, engine, state, dark, t)
    assert state.weights[0, 0] > 0.95 and state.weights[1, 1] > 0.95
    assert metrics["mixture_distance"].shape == (2,)


@pytest.mark.parametrize("layout", ["loop", "vmap"])
@pytest.mark.parametrize(
    "options",
    [
        dict(population=2),
        dict(population=2, selection="none"),
        dict(selection="none", skip_discriminator=1),
        dict(mustangs="update"),
        dict(mustangs="creation", fitness="worst"),
        dict(fitness="best", neighbourhood="moore", height=2, width=3),
        dict(loss="wasserstein", discriminator_steps=2, population=2),
    ],
    ids=str,
)
def test_variants_train_and_resume_exactly(options, layout):
    strategy, context = make(**options)
    size = strategy.num_members(0, 3)
    engine = Stacked(size, layout=layout)
    state, lines = rounds(strategy, context, engine, 2, batches=4)
    assert all(values.isfinite().all() for line in lines for values in line.values())
    again, _ = strategy.round(
        context, engine, rounds(strategy, context, engine, 1)[0], real(size, 4, 2), 2
    )
    assert trees.equal(state, again)


def test_conditional_cells_know_labels():
    strategy, context = make(MLP(latent=5, hidden=9, conditional=True))
    assert strategy.num_labels(context.gan, 4) == 3
    assert Cellular().num_labels(make()[1].gan, 4) == 0
    state, _ = rounds(strategy, context, Stacked(4), 1)
    noise = torch.randn(4, 5)
    images = [
        strategy.generate(context, Stacked(4), state, noise, torch.full((4,), label))
        for label in (0, 1)
    ]
    assert not torch.equal(*images)


def test_the_exchange_is_counted_and_the_routines_are_timed():
    strategy, context = make(height=3, width=3)
    engine = Metered(Stacked(9))
    rounds(strategy, context, engine, 1)
    state = strategy.init(context, Stacked(9))
    centre = trees.num_bytes(trees.map(lambda leaf: leaf[0, 0], state.sides))
    features = 6 * 64 * 4
    assert engine.bytes["take", "across"] == 9 * 4 * (centre + features)
    assert set(engine.seconds) == {"gather", "update_genomes", "mutate", "train"}
    assert all(seconds > 0 for seconds in engine.seconds.values())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (dict(height=0), "strategy.height must be at least 1, not 0"),
        (dict(population=0), "strategy.population"),
        (dict(lr_mutation=-1.0), "strategy.lr_mutation must be at least 0"),
        (dict(lr_mutation_probability=1.5), "must be in"),
        (dict(mixture_mutation=0.0), "must be above 0"),
        (dict(schedule="x"), "in the neighbourhood schedule"),
    ],
    ids=str,
)
def test_bad_settings(options, sentence):
    with pytest.raises(UserError, match=sentence):
        make(**options)


def test_the_grid_decides_the_number_of_members():
    with pytest.raises(UserError, match="2x3 has 6 members, not 5"):
        Cellular(height=2, width=3).num_members(5, 3)
    assert (
        Cellular(height=2, width=3).num_members(0, 3)
        == Cellular(height=2, width=3).num_members(6, 3)
        == 6
    )


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match="mustangs requires a loss of probabilities"):
        make(mustangs="update", loss="wasserstein")
    with pytest.raises(UserError, match="two real images in a round"):
        Cellular(batch_size=1, steps_per_round=1).batches_per_round(100)


def test_mixtures_are_compared_under_the_labels_of_the_real_images(monkeypatch):
    asked, draw_samples = [], MixtureSearch.draw_samples

    def spy(self, context, generators, labels, key):
        asked.append(labels)
        return draw_samples(self, context, generators, labels, key)

    monkeypatch.setattr(MixtureSearch, "draw_samples", spy)
    settings = dict(batch_size=4, steps_per_round=2, height=1, width=2, mixture_samples=11)
    strategy = Cellular(**settings)
    context = strategy.prepare(MLP(latent=5, hidden=12, conditional=True), SHAPE, 3, seed=7)
    engine, batch = Stacked(2), real(2, batches=2)
    strategy.round(context, engine, strategy.init(context, engine), batch, 1)
    expected = batch.labels.flatten(1)
    assert [labels.tolist() for labels in asked] == [
        [*row.tolist(), *row[:3].tolist()] for row in expected
    ]
