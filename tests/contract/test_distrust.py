"""Liars, aggregates and forgiving weights keep the promises of all strategies, on every engine."""

import pytest
import torch

from remuda.engines import Stacked
from remuda.tensors import trees
from tests.contract.cases import ENGINES, Small, assert_pure, assert_reported

PROGRAM = "program"  # what a GPU replays, without a compiler
CASES = [
    ("md-gan", "mlp", dict(aggregate="median", liars=2, lie="noise", lose_every=1)),
    ("md-gan", "mlp", dict(aggregate="trimmed-mean", withstand=1, liars=1, lie="collude")),
    ("md-gan", "acgan-mlp", dict(aggregate="krum", num_fake_batches=1, liars=3, lie="labels")),
    ("md-gan", "mlp", dict(aggregate="geometric-median", liars=1, lie="constant", ema=0.9)),
    ("md-gan", "mlp", dict(aggregate="norm-clipped", liars=1, lie="scaled")),
    ("md-gan", "mlp", dict(aggregate="reputation", num_fake_batches=1, liars=3, lose_every=1)),
    ("md-gan", "acgan-mlp", dict(forgive="f2u", liars=1)),
    ("md-gan", "mlp", dict(forgive="f2a", discriminator_steps=2)),
    ("fl-gan", "mlp", dict(aggregate="krum", liars=2, lie="collude", sync_optimizer="average")),
    ("fl-gan", "dcgan", dict(aggregate="median", liars=1, local_norms=True, fraction=0.5)),
    ("fl-gan", "mlp", dict(liars=2, lie="constant", ema=0.9)),
]


@pytest.fixture(params=[*(name for name in ENGINES if name[-4:] in ("vmap", "cuda")), PROGRAM])
def engine(request, monkeypatch):
    program = lambda size: Stacked(size, layout="vmap", compile="never")  # noqa: E731
    monkeypatch.setitem(ENGINES, PROGRAM, program)
    return request.param


@pytest.mark.parametrize(("strategy", "networks", "settings"), CASES, ids=str)
def test_rounds_are_pure_and_equal_on_all_engines(toy_data, engine, strategy, networks, settings):
    small = Small(toy_data, strategy, engine, networks, **settings)
    state, (_, metrics) = small.train(2)
    assert_reported(small, metrics)
    assert ("kept" in metrics) == ("aggregate" in settings)
    assert_pure(small, state, start=2)
    expected, _ = Small(toy_data, strategy, "stacked-loop", networks, **settings).train(2)
    for (name, a), (_, b) in zip(*map(trees.named_leaves, (state, expected)), strict=True):
        assert torch.allclose(a.double().cpu(), b.double(), atol=2e-3), name


@pytest.mark.parametrize(("strategy", "networks", "settings"), CASES, ids=str)
def test_a_fresh_start_from_saved_tensors_is_exact(toy_data, strategy, networks, settings):
    small, again = (
        Small(toy_data, strategy, "stacked-vmap", networks, **settings) for _ in range(2)
    )
    half, _ = small.train(2)
    saved = {name: leaf.clone() for name, leaf in trees.named_leaves(half)}
    plain = Small(toy_data, strategy, "stacked-vmap", networks, ema=small.strategy.ema)
    memory = {"server/agreement"} if settings.get("aggregate") == "reputation" else set()
    assert saved.keys() == dict(trees.named_leaves(plain.start())).keys() | memory
    whole, _ = small.train(1, half, start=2)
    resumed, _ = again.train(1, trees.fill(again.start(), saved), start=2)
    assert trees.equal(whole, resumed)
