"""What every strategy promises on every engine; new entries in STRATEGIES are tested as well."""

import pytest
import torch

from remuda.errors import UserError
from remuda.gan import LOSSES
from remuda.networks import NETWORKS as FAMILIES
from remuda.strategies import MEMBER_NOUNS, STRATEGIES
from remuda.tensors import trees
from tests.contract.cases import (
    ENGINES,
    NETWORKS,
    UNDECIDED,
    Small,
    assert_pure,
    assert_reported,
    facts,
)
from tests.networks.small import shrink_acgans

# What Metered adds does not depend on the networks, so one of them is enough.
UNMETERED = [name for name in ENGINES if name != "metered"]
PLACES = [(name, networks) for name in UNMETERED for networks in NETWORKS] + [("metered", "mlp")]
# (strategy, networks) -> results of the simplest engine, which all engines are compared with
REFERENCES = {}


@pytest.mark.parametrize(("engine", "networks"), PLACES)
def test_rounds_learn_report_every_member_and_are_pure(toy_data, strategy, engine, networks):
    """A round leaves its state intact, and can run again from it after a failure."""
    small = Small(toy_data, strategy, engine, networks)
    state, (metrics,) = small.train(1)
    assert not trees.equal(state, small.start())
    assert_reported(small, metrics)
    assert_pure(small, state, start=1)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in NETWORKS])
def test_other_networks_learn_with_every_strategy(toy_data, strategy, family, monkeypatch):
    """On one engine, because the test above runs such layers on all engines."""
    shrink_acgans(monkeypatch)
    small = Small(toy_data, strategy, "stacked-vmap", family)
    state, (metrics,) = small.train(1)
    assert not trees.equal(state, small.start())
    assert all(leaf.isfinite().all() for leaf in trees.leaves((state, metrics)))


def test_a_fresh_start_from_saved_tensors_is_exact(toy_data, strategy, engine):
    small, again = (Small(toy_data, strategy, engine, "dcgan") for _ in range(2))
    half, _ = small.train(2)
    saved = {name: leaf.clone() for name, leaf in trees.named_leaves(half)}
    whole, _ = small.train(1, half, start=2)
    resumed, _ = again.train(1, trees.fill(again.start(), saved), start=2)
    assert trees.equal(whole, resumed)


@pytest.mark.parametrize(
    ("engine", "networks"), [place for place in PLACES if place[0] != "stacked-loop"]
)
def test_engines_agree_to_rounding(toy_data, strategy, engine, networks):
    settings, key = UNDECIDED.get(strategy, {}), (strategy, networks)
    if key not in REFERENCES:
        small = Small(toy_data, strategy, "stacked-loop", networks, **settings)
        REFERENCES[key] = small.train(3)
    reference, expected = REFERENCES[key]
    state, metrics = Small(toy_data, strategy, engine, networks, **settings).train(3)
    # The tolerance is wide because of biases before a BatchNorm: their gradients are only rounding,
    # which Adam turns into whole steps.
    for (name, a), (_, b) in zip(
        trees.named_leaves(reference), trees.named_leaves(state), strict=True
    ):
        assert torch.allclose(a.double(), b.double().cpu(), atol=2e-3), name
    for one, other in zip(expected, metrics, strict=True):
        assert all(torch.allclose(one[name], other[name].cpu(), atol=2e-3) for name in one)
        found = facts(other)
        assert facts(one).keys() == found.keys()
        for name, values in facts(one).items():
            assert torch.allclose(values.double(), found[name].double().cpu(), atol=2e-3), name


def test_seeds_matter_and_repeat(toy_data, strategy, engine):
    states = [Small(toy_data, strategy, engine, seed=seed).train(1)[0] for seed in (3, 3, 4)]
    assert trees.equal(states[0], states[1]) and not trees.equal(states[0], states[2])


def test_samples_have_the_shape_of_the_data(toy_data, strategy, networks):
    small = Small(toy_data, strategy, "stacked-loop", networks)
    state, _ = small.train(1)
    num_labels = small.strategy.num_labels(small.context.gan, small.engine.size)
    labels = torch.arange(7) % max(1, num_labels)
    noise = torch.randn(7, 6)
    images = small.generate(state, noise, labels)
    assert images.shape == (7, *toy_data.shape) and images.abs().max() <= 1
    assert torch.allclose(small.generate(state, noise[2:3], labels[2:3]), images[2:3], atol=1e-5)


OF_LOSSES = {  # settings that the tests of a loss also cover
    "non-saturating": dict(discriminator_steps=3),
    "minimax": dict(generator_lr=1e-3, discriminator_betas=(0.0, 0.9)),
    "least-squares": dict(label_smoothing=0.1),
    "hinge": dict(lipschitz="spectral-both", ema=0.9),
    "relativistic": dict(r1=0.5, r2=0.5, penalty_every=2, discriminator_steps=2),
}


@pytest.mark.parametrize(
    "settings",
    [
        *(dict(loss=loss, **OF_LOSSES.get(loss, {})) for loss in LOSSES),
        dict(ema=0.9),
        dict(loss="wasserstein", shift=0.2, cutout=0.4, colour=0.5),
    ],
    ids=str,
)
@pytest.mark.parametrize("engine", UNMETERED)
def test_settings_common_to_all(toy_data, strategy, engine, settings):
    state, metrics = Small(toy_data, strategy, engine, "dcgan", **settings).train(2)
    assert all(values.isfinite().all() for line in metrics for values in line.values())
    assert all(leaf.isfinite().all() for leaf in trees.leaves(state))


@pytest.mark.parametrize("engine", [name for name in ENGINES if name[-4:] in ("vmap", "cuda")])
def test_augmentation_adapts_alike_on_every_engine(toy_data, strategy, engine):
    """Two updates in a round, with 4 of 40 images each, move the probability by up to 0.2."""
    settings = UNDECIDED.get(strategy, {}) | dict(colour=1.0, ada_target=0.01, ada_images=40.0)
    settings |= dict(loss="wasserstein", discriminator_lr=0.01)
    expected, found = (
        torch.stack([line["augmentation"] for line in Small(*case, **settings).train(4)[1]]).cpu()
        for case in ((toy_data, strategy, "stacked-loop"), (toy_data, strategy, engine))
    )
    tenths = found[0] * 10
    assert torch.allclose(found, expected, atol=1e-6) and found[-1].max() > found[0].max()
    assert torch.allclose(tenths, tenths.round())


def test_batches_and_updates_are_counted_both_ways(strategy):
    made = STRATEGIES[strategy](discriminator_steps=3)
    assert [made.steps_in(made.batches_for(steps)) for steps in (1, 2, 12)] == [1, 2, 12]
    fixed = STRATEGIES[strategy](steps_per_round=12)
    assert fixed.steps_in(fixed.batches_per_round(100)) == 12


def test_a_population_grows_or_says_why_not(strategy):
    made = STRATEGIES[strategy]()
    if made.num_members(0, 10) == 1:
        with pytest.raises(UserError, match="cannot grow"):
            made.grow(3, 0)
        return
    grown, members = made.grow(3, 0)
    size = grown.num_members(members, 30)
    assert size == (3 * made.num_members(0, 30) if made.grid else 3)
    table = grown.exchange_table(size, seed=0)
    assert len(table) == size and table.ndim == 2
    assert (table != torch.arange(size)[:, None]).any(1).all(), "everyone takes from another"


def test_every_strategy_can_be_asked_for_its_traffic_and_mixtures(strategy):
    made = STRATEGIES[strategy]()
    assert 1 <= made.traffic_plan(10).num_fake_batches <= 10
    if not made.grid:
        with pytest.raises(UserError, match="have mixtures"):
            made.mixtures(None)
    assert strategy in MEMBER_NOUNS


MIXTURES = {"mixture_weights", "neighbours"}
FACTS = {  # which strategies record which facts in every round
    "cellular": MIXTURES,
    "cellular-async": MIXTURES,
    "md-gan": {"moved_from/members"},
    "md-gan-async": {"moved_from/members"},
}


@pytest.mark.parametrize("engine", UNMETERED)
def test_facts_of_a_round(toy_data, strategy, engine):
    """In round 2 of the asynchronous MD-GAN, workers are due to swap for the first time."""
    _, (_, report) = Small(toy_data, strategy, engine).train(2)
    assert set(facts(report)) == FACTS.get(strategy, set())
    found = {name: values.cpu() for name, values in facts(report).items()}
    if "neighbours" in found:
        weights = found["mixture_weights"]
        assert weights.shape == found["neighbours"].shape
        assert torch.allclose(weights.sum(1), torch.ones(len(weights)))
        assert found["neighbours"][:, 0].tolist() == list(range(len(weights)))
    if "moved_from/members" in found:
        source = found["moved_from/members"].tolist()
        assert sorted(source) == list(range(len(source))) and source != sorted(source)


def test_the_fitness_of_cells_is_a_metric(toy_data):
    _, (metrics,) = Small(toy_data, "cellular", "stacked-vmap").train(1)
    names = {"generator_fitness", "discriminator_fitness"}
    assert names <= set(metrics) and names == STRATEGIES["cellular"].may_be_undefined
