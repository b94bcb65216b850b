"""Every strategy honours schedules on every engine."""

import pytest
import torch

from remuda.errors import UserError
from remuda.strategies import STRATEGIES
from remuda.tensors import trees
from tests.contract.cases import UNDECIDED, Small

ALL = dict(
    loss="wasserstein",
    discriminator_steps=2,
    annealing="cosine",
    annealing_rounds=2.5,
    final_lr=0.1,
    final_betas=(0.1, 0.9),
    final_penalty=0.5,
    warmup_rounds=1.0,
    ema_images=30.0,
    ema_rampup=0.5,
)
STOPPED = dict(
    annealing="linear",
    annealing_rounds=1.0,
    final_lr=0.0,
    ema_images=100.0,
    ema_rampup=1e-12,  # the average follows the generator at once
)


def test_a_resume_within_a_schedule_is_exact_and_engines_agree(toy_data, strategy, engine):
    settings = ALL | UNDECIDED.get(strategy, {})
    small, again = (Small(toy_data, strategy, engine, **settings) for _ in range(2))
    half, _ = small.train(2)
    saved = {name: leaf.clone() for name, leaf in trees.named_leaves(half)}
    whole, _ = small.train(1, half, start=2)
    resumed, _ = again.train(1, trees.fill(again.start(), saved), start=2)
    assert trees.equal(whole, resumed)
    if engine != "stacked-loop":
        expected, _ = Small(toy_data, strategy, "stacked-loop", **settings).train(3)
        for (name, a), (_, b) in zip(*map(trees.named_leaves, (expected, whole)), strict=True):
            assert torch.allclose(a.double(), b.double().cpu(), atol=2e-3), name


def test_a_learning_rate_of_0_stops_every_network(toy_data, strategy, engine):
    """Learning rates that have evolved in cells stop as well."""
    moving = {"md-gan": dict(swap_every=0), "md-gan-async": dict(swap_every=0)} | UNDECIDED
    if STRATEGIES[strategy].is_asynchronous:  # schedules count a member's own turns
        size = STRATEGIES[strategy]().num_members(0, 10)
        moving[strategy] = moving[strategy] | dict(speeds=(1.0,) * size)
    settings = STOPPED | moving.get(strategy, {})
    small = Small(toy_data, strategy, engine, **settings)
    first, _ = small.train(1)
    second, _ = small.train(1, first, start=1)
    states = small.start(), first, second
    start, first, second = (
        {
            name: leaf
            for name, leaf in trees.named_leaves(state)
            if "params/" in name and "mail/" not in name  # mail holds older copies
        }
        for state in states
    )
    assert all((start[name] != first[name]).any() for name in start if name.endswith("weight"))
    for name in first:
        assert torch.allclose(first[name], second[name], atol=1e-6), name
    generators = small.strategy.generators(small.engine, states[1])
    for name, average in generators.average.items():
        assert torch.equal(average, generators.generator.params[name]), name


def test_a_schedule_of_a_penalty_needs_a_penalty(toy_data):
    settings = dict(annealing="linear", annealing_rounds=2.0, final_penalty=0.5)
    Small(toy_data, "standalone", "stacked-loop", loss="wasserstein", **settings)
    with pytest.raises(UserError, match="final_penalty has no effect"):
        Small(toy_data, "standalone", "stacked-loop", **settings)
    with pytest.raises(UserError, match=r"penalty_every has no effect.*leave it at 1"):
        Small(toy_data, "standalone", "stacked-loop", penalty_every=2)
