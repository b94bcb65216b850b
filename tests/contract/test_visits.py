"""Seven workers and three discriminators, whose groups have two or three workers."""

import pytest
import torch

from remuda.tensors import trees
from tests.contract.cases import Small, assert_pure, assert_reported

FEW = dict(members=7, discriminators=3, swap_every=2)
CYCLE = 2 * 3  # rounds until the member with the largest group returns to its first worker


@pytest.mark.parametrize("visits", ["rotation", "random"])
def test_rounds_are_pure_and_engines_agree(toy_data, engine, visits):
    small, reference = (
        Small(toy_data, "md-gan", place, visits=visits, **FEW) for place in (engine, "stacked-loop")
    )
    state, metrics = small.train(CYCLE + 1)
    assert small.engine.size == 3
    assert_reported(small, metrics[-1])
    assert_pure(small, state, start=CYCLE + 1)
    expected, lines = reference.train(CYCLE + 1)
    for (name, a), (_, b) in zip(*map(trees.named_leaves, (expected, state)), strict=True):
        assert torch.allclose(a.double(), b.double().cpu(), atol=2e-3), name
    for one, other in zip(lines, metrics, strict=True):
        assert all(torch.allclose(one[name], other[name].cpu(), atol=2e-3) for name in one)


@pytest.mark.parametrize("start", [1, 2, 3])
def test_a_resume_in_the_middle_of_a_visit_or_a_cycle_is_exact(toy_data, engine, start):
    small, again = (Small(toy_data, "md-gan", engine, same_start=False, **FEW) for _ in range(2))
    half, _ = small.train(start)
    saved = {name: leaf.clone() for name, leaf in trees.named_leaves(half)}
    whole, _ = small.train(CYCLE, half, start=start)
    resumed, _ = again.train(CYCLE, trees.fill(again.start(), saved), start=start)
    assert trees.equal(whole, resumed)
