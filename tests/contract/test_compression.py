"""Compressed messages keep the promises of their strategies on every engine."""

import pytest
import torch

from remuda.tensors import trees
from tests.contract.cases import ENGINES, Small, assert_pure, assert_reported

CASES = {
    "md-gan": dict(compress_down="int4", compress_up="top-k", compress_across="int8"),
    "md-gan-remembered": dict(compress_up="int8", error_feedback=True),
    "fl-gan": dict(compress_down="int16", compress_up="int8", error_feedback=True, fraction=0.5),
}


def make(data, case, engine):
    name = case.removesuffix("-remembered")
    return Small(data, name, engine, "mlp", **CASES[case])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("engine", ENGINES)
def test_rounds_are_pure_and_engines_agree(toy_data, case, engine):
    small = make(toy_data, case, engine)
    state, metrics = small.train(2)
    assert_reported(small, metrics[-1])
    assert_pure(small, state, start=2)
    expected, _ = make(toy_data, case, "stacked-loop").train(2)
    for (name, a), (_, b) in zip(*map(trees.named_leaves, (state, expected)), strict=True):
        assert torch.allclose(a.double().cpu(), b.double(), atol=2e-3), name


@pytest.mark.parametrize("case", CASES)
def test_a_fresh_start_from_saved_tensors_is_exact(toy_data, case):
    small, again = (make(toy_data, case, "stacked-vmap") for _ in range(2))
    half, _ = small.train(2)
    saved = {name: leaf.clone() for name, leaf in trees.named_leaves(half)}
    has_memory = any(name.startswith("memory") for name in saved)
    assert has_memory == small.strategy.error_feedback
    whole, _ = small.train(1, half, start=2)
    resumed, _ = again.train(1, trees.fill(again.start(), saved), start=2)
    assert trees.equal(whole, resumed)


@pytest.mark.parametrize("case", CASES)
def test_rows_and_the_rest_make_the_state(toy_data, case):
    small = make(toy_data, case, "stacked-vmap")
    state, _ = small.train(1)
    rows = small.strategy.rows(state)
    assert {leaf.shape[0] for leaf in trees.leaves(rows)} == {small.engine.size}
    assert trees.equal(small.strategy.with_rows(state, rows), state)
