"""Members that share layers keep the promises of all strategies, on every engine."""

import pytest
import torch

from remuda.engines import Stacked
from remuda.tensors import trees
from tests.contract.cases import ENGINES, Small, assert_pure, assert_reported

SHARED = dict(
    shared_generator=("body",), shared_discriminator=("input", "body"), discriminator_steps=2,
    families=((0, 2),), family_discriminator=("head",), ema=0.9,
)  # fmt: skip
ADAPTIVE = dict(loss="wasserstein", colour=1.0, ada_target=0.01, ada_images=40.0)
PENALTIES = dict(loss="relativistic", r1=0.5, r2=0.5, penalty_every=2)
PROGRAM = "program"  # what a GPU replays, without a compiler


@pytest.fixture(params=[1, 2], ids=["gradients", "tensors"])
def settings(request):
    return SHARED | dict(share_every=request.param)


@pytest.fixture(params=[*ENGINES, PROGRAM])
def engine(request, monkeypatch):
    program = lambda size: Stacked(size, layout="vmap", compile="never")  # noqa: E731
    monkeypatch.setitem(ENGINES, PROGRAM, program)
    return request.param


CASES = [("mlp", {}), ("mlp", ADAPTIVE), ("mlp", PENALTIES), ("dcgan", {}), ("sagan", {})]


@pytest.mark.parametrize("networks, more", CASES, ids=str)
def test_rounds_are_pure_and_equal_on_all_engines(toy_data, engine, networks, more, settings):
    settings |= more
    small = Small(toy_data, "class-parallel", engine, networks, **settings)
    state, (_, metrics) = small.train(2)
    assert_reported(small, metrics)
    assert_pure(small, state, start=2)
    expected, _ = Small(toy_data, "class-parallel", "stacked-loop", networks, **settings).train(2)
    for (name, a), (_, b) in zip(*map(trees.named_leaves, (state, expected)), strict=True):
        assert torch.allclose(a.double().cpu(), b.double(), atol=2e-3), name


def test_rows_and_the_rest_make_the_state(toy_data, settings):
    small = Small(toy_data, "class-parallel", "stacked-vmap", **settings)
    state, _ = small.train(1)
    rows = small.strategy.rows(state)
    assert {leaf.shape[0] for leaf in trees.leaves(rows)} == {small.engine.size}
    assert trees.equal(small.strategy.with_rows(state, rows), state)
    assert trees.leaves(small.strategy.with_rows(state, ()))


def test_every_class_has_its_own_generator(toy_data, settings):
    small = Small(toy_data, "class-parallel", "stacked-vmap", **settings)
    state, _ = small.train(2)
    noise = torch.randn(1, 6).expand(3, 6)
    images = small.generate(state, noise, torch.arange(3))
    assert images.shape == (3, *toy_data.shape)
    assert not torch.equal(images[0], images[1]) and not torch.equal(images[1], images[2])
