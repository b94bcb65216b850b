"""Check how strategies describe who generates an image."""

import pytest
import torch

from remuda.engines import Stacked
from remuda.errors import UserError
from remuda.networks import MLP
from remuda.strategies import STRATEGIES, Routing, Standalone
from remuda.strategies.routing import by_label

NETWORKS = MLP(latent=4, hidden=4)


def routing_of(name, members, networks=NETWORKS, **settings):
    strategy = STRATEGIES[name](**settings)
    context = strategy.prepare(networks, (1, 8, 8), 3, seed=0, shares=[5] * members)
    engine = Stacked(members)
    return strategy.routing(context, engine, strategy.init(context, engine))


def test_labels_choose_members():
    assert routing_of("class-parallel", 3) == Routing("label", (0, 1, 2))
    assert routing_of("standalone", 1) == Routing("label", (0,))
    conditional = MLP(latent=4, hidden=4, conditional=True)
    assert routing_of("md-gan", 3, conditional) == Routing("label", (0, 0, 0))
    assert routing_of("fl-gan", 3) == Routing("label", (0,))


def test_mixtures_and_turns_are_described():
    assert routing_of("fl-gan", 3, sync="discriminator") == Routing("position", (0, 1, 2))
    by, members, shares = routing_of("cellular", 4)
    assert by == "noise" and set(members) <= set(range(4)) and len(members) == len(shares)
    assert sum(shares) == pytest.approx(1)


def test_a_choice_by_noise_must_be_described():
    class ByNoise(Standalone):
        def authors(self, engine, state, noise, labels):
            return (noise[:, 0] > 0).long()

    strategy = ByNoise()
    context = strategy.prepare(NETWORKS, (1, 8, 8), 3, seed=0)
    engine = Stacked(1)
    with pytest.raises(UserError, match=r"ByNoise does not choose .* define its method routing"):
        strategy.routing(context, engine, strategy.init(context, engine))


def test_a_choice_by_position_is_noticed():
    with pytest.raises(UserError, match="Turns does not choose generators by label only"):
        by_label(lambda noise, labels: torch.arange(len(labels)) % 2, 4, 3, "Turns")
