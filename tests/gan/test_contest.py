"""All against all by a double loop; opponents, learning rates and drawn losses."""

from dataclasses import replace

import pytest
import torch

from remuda.gan import GAN, LOSSES, Adam, Overrides, Pair
from remuda.gan.contest import Contest, Sides, Turns
from remuda.gan.losses import MUSTANGS, drawn_loss
from remuda.gan.players import apply
from remuda.networks import DCGAN, MLP
from remuda.networks.acgan import ACGANMLP
from remuda.tensors import random, trees

SHAPE = (1, 8, 8)
NETWORKS = {
    "mlp": MLP(latent=5, hidden=7),
    "dcgan": DCGAN(latent=5, width=8),
    "acgan": ACGANMLP(latent=5, hidden=7),
}


def contest(networks="mlp", own_rates=False, drawing="none", discriminator_steps=1, **settings):
    gan = GAN(
        networks=NETWORKS[networks],
        shape=SHAPE,
        num_classes=3,
        generator_optimizer=Adam(0.01, 0.5, 0.9),
        discriminator_optimizer=Adam(0.02, 0.5, 0.9),
        **{"loss": LOSSES["non-saturating"], **settings},
    )
    return Contest(gan, discriminator_steps, own_rates, drawing)


def turns(num, individuals=1, rivals=0, batch=6):
    torch.manual_seed(0)
    images, labels = torch.rand(num, batch, *SHAPE) * 2 - 1, torch.randint(0, 3, (num, batch))
    keys = torch.tensor([random.key(0, "turn", n) for n in range(num)])
    chosen = torch.eye(3)[torch.arange(num)[:, None].expand(-1, individuals) % 3]
    return Turns(
        images,
        labels,
        torch.randn(num, batch, 5),
        keys,
        torch.full((num, individuals, 2), rivals),
        chosen,
        {},
    )


@pytest.mark.parametrize("networks", NETWORKS)
def test_all_against_all_is_a_double_loop(networks):
    game = contest(networks)
    generators, discriminators = game.new_individuals([1, 2, 3]), game.new_individuals([4, 5])
    images, labels, noise = (leaf[0] for leaf in turns(1)[:3])
    players = generators.generators.player, discriminators.discriminators.player
    of_g, of_d = game.losses(*players, images, labels, noise, torch.tensor(8))
    for i in range(3):
        for j in range(2):
            g, d = (
                trees.row(generators.generators.player, i),
                trees.row(discriminators.discriminators.player, j),
            )
            fakes, _ = apply(game.gan.generator, g.params, g.buffers, noise, labels)
            on_fakes, _ = apply(game.gan.discriminator, d.params, d.buffers, fakes, labels)
            on_real, _ = apply(game.gan.discriminator, d.params, d.buffers, images, labels)
            expected = game.gan.objective.generator_loss(on_fakes, labels)
            assert torch.isclose(of_g[i, j], expected, atol=1e-6)
            expected = game.gan.objective.discriminator_loss(on_real, on_fakes, labels, labels)
            assert torch.isclose(of_d[j, i], expected, atol=1e-6)
    assert of_g.shape == (3, 2) and of_d.shape == (2, 3)


@pytest.mark.parametrize("networks", NETWORKS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"loss": LOSSES["wasserstein"], "lipschitz": "penalty"},
        {"loss": LOSSES["relativistic"], "r1": 0.5, "r2": 0.25, "penalty_every": 2},
    ],
    ids=["", "penalty", "relativistic"],
)
def test_losses_are_those_that_are_trained(networks, settings):
    """Also with the class loss of an auxiliary classifier and with the gradient penalty."""
    game = contest(networks, **settings)
    generators, discriminators = (
        game.new_individuals([1, 2, 3]).generators.player,
        game.new_individuals([4, 5]).discriminators.player,
    )
    images, labels, noise = (leaf[0] for leaf in turns(1)[:3])
    key = torch.tensor(8)
    of_g, of_d = game.losses(generators, discriminators, images, labels, noise, key)
    for i in range(3):
        for j in range(2):
            g, d = trees.row(generators, i), trees.row(discriminators, j)
            fakes, _, _ = game.gan.generate(g, noise, labels)
            _, _, cost = game.gan.feedback(d, fakes, labels, real=(images, labels))
            # In training, the second batch uses the buffers that the first has changed.
            if networks != "dcgan" or not game.gan.loss.pairs:
                assert torch.isclose(of_g[i, j], cost, atol=1e-5)
            _, cost = game.gan.update_discriminator(d, images, fakes, labels, key)
            if networks != "dcgan":
                assert torch.isclose(of_d[j, i], cost, atol=1e-5)


def test_a_scheduled_penalty_counts_in_evaluations_as_in_training():
    game = contest(loss=LOSSES["wasserstein"], lipschitz="penalty")
    game = replace(game, penalty_factor=0.25)
    sides = game.new_individuals([1])
    images, labels, noise = (leaf[0] for leaf in turns(1)[:3])
    key, players = torch.tensor(8), (sides.generators.player, sides.discriminators.player)
    _, of_discriminators = game.losses(*players, images, labels, noise, key)
    generator, discriminator = (trees.row(player, 0) for player in players)
    fakes, _, _ = game.gan.generate(generator, noise, labels)
    _, cost = game.gan.update_discriminator(
        discriminator,
        images,
        fakes,
        labels,
        key,
        overrides=Overrides(penalty_factor=torch.tensor(0.25)),
    )
    assert torch.isclose(of_discriminators[0, 0], cost, atol=1e-5)


def test_fitness_is_a_measure_of_the_losses():
    game = contest()
    sides = game.new_individuals([1, 2, 3])
    images, labels, key = turns(1).images[0], turns(1).labels[0], torch.tensor(7)
    of_g, of_d = game.fitnesses(sides, lambda losses: losses.amax(1), images, labels, key)
    players = sides.generators.player, sides.discriminators.player
    losses = game.losses(*players, images, labels, random.normal(key, (6, 5)), random.fold(key, 1))
    assert torch.equal(of_g, losses[0].amax(1)) and torch.equal(of_d, losses[1].amax(1))


@pytest.mark.parametrize("loss", ["non-saturating", "relativistic"])
@pytest.mark.parametrize("networks", NETWORKS)
def test_one_against_one_is_a_gans_step(networks, loss):
    game = contest(networks, discriminator_steps=2, loss=LOSSES[loss])
    sides, played = game.new_individuals([3]), turns(2)
    after, _ = game.train(sides, None, played)
    pair = Pair(*(trees.row(side.player, 0) for side in sides), {})
    expected, _ = game.gan.step(pair, *played[:4])
    assert trees.equal(trees.row(after.generators.player, 0), expected.generator)
    assert trees.equal(trees.row(after.discriminators.player, 0), expected.discriminator)


def test_discriminators_rest_while_generators_continue():
    game = contest()
    sides = game.new_individuals([3])
    after, _ = game.train(sides, None, turns(4))
    assert (
        after.generators.player.moments.steps == 4
        and after.discriminators.player.moments.steps == 1
    )
    both = game.new_individuals([3, 4])
    after, _ = game.train(both, None, turns(4, individuals=2))
    assert after.generators.player.moments.steps.tolist() == [4, 4]
    assert after.discriminators.player.moments.steps.tolist() == [1, 1]


def test_later_updates_of_a_generator_use_their_own_real_images():
    game = contest(loss=LOSSES["relativistic"])
    gan, sides, played = game.gan, game.new_individuals([3]), turns(2)
    after, _ = game.train(sides, None, played)
    pair = Pair(*(trees.row(side.player, 0) for side in sides), {})
    pair, _ = gan.step(pair, *(leaf[:1] for leaf in played[:4]))
    images, labels, noise = (leaf[1] for leaf in played[:3])
    fakes, _, pull = gan.generate(pair.generator, noise, labels)
    pair, _ = gan.update_generator(pair, fakes, pull, labels, real=(images, labels))
    assert trees.equal(trees.row(after.generators.player, 0), pair.generator)


@pytest.mark.parametrize("loss", ["non-saturating", "relativistic"])
def test_an_opponent_is_the_one_of_that_number(loss):
    """Own individuals come first, then the others, which do not learn."""
    game = contest(loss=LOSSES[loss])
    sides, others = game.new_individuals([1]), game.new_individuals([2, 3])
    before = trees.map(torch.clone, others)
    for rival, key in enumerate([1, 2, 3]):
        played = turns(1, rivals=rival)
        after, _ = game.train(sides, others, played)
        opponent = game.new_individuals([key])
        fakes, _, _ = game.gan.generate(
            trees.row(opponent.generators.player, 0), played.noise[0], played.labels[0]
        )
        one = trees.row(sides.discriminators.player, 0)
        key_ = random.fold(played.keys[0], 0)
        expected, _ = game.gan.update_discriminator(
            one, played.images[0], fakes, played.labels[0], key_
        )
        assert trees.equal(trees.row(after.discriminators.player, 0), expected)
        rival_discriminator = (
            expected if rival == 0 else trees.row(opponent.discriminators.player, 0)
        )
        mine = trees.row(sides.generators.player, 0)
        fakes, _, pull = game.gan.generate(mine, played.noise[0], played.labels[0])
        batch = played.images[0], played.labels[0]
        _, feedback, _ = game.gan.feedback(rival_discriminator, fakes, played.labels[0], real=batch)
        assert trees.equal(
            trees.row(after.generators.player, 0), game.gan.apply_gradients(mine, pull(feedback))
        )
    assert trees.equal(others, before)


def test_individual_learning_rates_take_effect():
    """The first step of Adam is the rate itself, wherever there is a gradient."""
    game = contest(own_rates=True)
    sides = game.new_individuals([1, 2])
    rates = torch.tensor([0.003, 0.0])
    sides = Sides(sides.generators._replace(lr=rates), sides.discriminators._replace(lr=2 * rates))
    after, _ = game.train(sides, None, turns(1, individuals=2))
    for side, new, factor in (
        (sides.generators, after.generators, 1),
        (sides.discriminators, after.discriminators, 2),
    ):
        name = "layers.4.bias"
        steps = (new.player.params[name] - side.player.params[name]).abs().amax(1)
        assert torch.allclose(steps, factor * rates, atol=1e-5)
        assert torch.equal(new.lr, side.lr), "a rate belongs to its individual"


def test_mustangs_losses_by_hand():
    fake = torch.tensor([0.0, 2.0])
    p = torch.sigmoid(fake)
    expected = [-p.log().mean(), (p - 1).square().mean(), -0.5 * p.log().mean()]
    for i, value in enumerate(expected):
        assert torch.isclose(MUSTANGS[i](fake), value)
        assert torch.isclose(drawn_loss(torch.eye(3)[i], fake), value)


@pytest.mark.parametrize("individuals", [1, 2])
def test_losses_are_drawn_at_creation_or_for_every_update(individuals):
    played = turns(1, individuals)
    played = played._replace(losses=torch.eye(3)[1].expand_as(played.losses))
    moments = {}
    for drawing in ("none", "creation", "update"):
        game = contest(drawing=drawing)
        sides = game.new_individuals(list(range(individuals)))
        sides = sides._replace(
            generators=sides.generators._replace(loss=torch.eye(3)[[0] * individuals])
        )
        after, _ = game.train(sides, None, played)
        moments[drawing] = after.generators.player.moments.first["layers.4.bias"][0]
    # Cross-entropy has twice the gradient of the default loss, least squares a different one.
    assert torch.allclose(moments["creation"], 2 * moments["none"], rtol=1e-4, atol=1e-7)
    assert not torch.allclose(moments["update"], moments["none"], rtol=1e-3, atol=1e-7)


def test_individuals_differ_and_draw_their_losses():
    sides = contest().new_individuals(list(range(40)))
    weight = sides.generators.player.params["layers.0.weight"]
    assert not torch.equal(weight[0], weight[1])
    assert (sides.generators.loss.sum(0) > 5).all() and (sides.generators.loss.sum(1) == 1).all()
    assert torch.equal(sides.generators.lr, torch.full((40,), 0.01))
