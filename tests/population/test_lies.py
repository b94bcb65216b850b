"""Lies: who lies, and what liars send."""

import pytest
import torch

from remuda.engines import Stacked
from remuda.population.lies import LIES, draw_liars, flip_labels, lie_keys
from remuda.population.relay import through_server
from remuda.tensors import trees

MESSAGE = torch.tensor([[3.0, -4.0], [0.0, 5.0]])


def test_signs_and_scales():
    key = torch.tensor(7)
    assert torch.equal(LIES["sign"](MESSAGE, key, 10.0), -MESSAGE)
    assert torch.equal(LIES["scaled"](MESSAGE, key, 10.0), 10 * MESSAGE)
    assert torch.equal(LIES["labels"](MESSAGE, key, 10.0), MESSAGE)


@pytest.mark.parametrize("lie", ["noise", "collude", "constant"])
def test_made_up_messages_have_the_size_of_honest_ones(lie):
    message = 1e-3 * torch.randn(50, 40)
    lies = [LIES[lie](message, torch.tensor(key), 10.0) for key in (1, 1, 2)]
    assert torch.equal(lies[0], lies[1]) and not torch.equal(lies[0], lies[2])
    assert lies[0].norm() == pytest.approx(float(message.norm()), rel=0.1)
    assert abs(torch.dot(lies[0].flatten(), message.flatten()) / message.norm() ** 2) < 0.1
    assert not LIES[lie](torch.zeros(3), torch.tensor(1), 10.0).any(), "nothing has no size"


def test_keys_tell_liars_and_rounds_apart():
    def keys(lie, t):
        return lie_keys(lie, 5, [0, 1, 2], t, "cpu").tolist()

    assert len(set(keys("noise", 1) + keys("noise", 2))) == 6
    assert len(set(keys("collude", 1))) == 1 and keys("collude", 1) != keys("collude", 2)
    assert len(set(keys("constant", 1))) == 3 and keys("constant", 1) == keys("constant", 2)


def test_liars_are_drawn_from_the_seed():
    assert draw_liars(1, 6, 0).sum() == 0
    two, three = draw_liars(1, 6, 2), draw_liars(1, 6, 3)
    assert two.sum() == 2 and three.sum() == 3 and (two & ~three).sum() == 0
    assert len({tuple(draw_liars(seed, 6, 2).tolist()) for seed in range(30)}) > 5


def test_labels_are_reversed():
    labels = torch.tensor([[[0, 1, 9]], [[0, 1, 9]]])
    found = flip_labels(labels, torch.tensor([False, True]), 10)
    assert found.tolist() == [[[0, 1, 9]], [[9, 8, 0]]]


def test_rows_travel_through_the_server():
    rows = {"a": torch.arange(3.0), "b": torch.ones(3, 2)}
    found = through_server(Stacked(3), lambda tree: (tree["a"].flip(0), tree["b"].sum(1)), rows)
    assert found[0].tolist() == [2, 1, 0] and found[1].tolist() == [2, 2, 2]


def test_rows_become_a_matrix_and_rows_again():
    rows = {"a": torch.arange(4.0).reshape(2, 2), "n": torch.tensor([1, 2]), "b": torch.ones(2)}
    numbers = trees.flatten_rows(rows)
    assert numbers.tolist() == [[0, 1, 1], [2, 3, 1]]
    doubled = trees.unflatten_rows(rows, 2 * numbers)
    assert trees.equal(doubled, {"a": 2 * rows["a"], "n": rows["n"], "b": 2 * rows["b"]})
