from typing import NamedTuple

import pytest
import torch

from remuda.tensors import trees


class Node(NamedTuple):
    left: dict
    right: tuple


TREE = Node({"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, 2])}, (torch.ones(2), {}))


def test_names_follow_the_structure():
    assert [name for name, _ in trees.named_leaves(TREE)] == ["left/a", "left/b", "right/0"]


def test_fill_inverts_named_leaves():
    again = trees.fill(TREE, dict(trees.named_leaves(TREE)))
    assert isinstance(again, Node) and trees.equal(again, TREE)


def test_stack_and_row_are_inverse():
    rows = trees.stack([TREE, trees.map(lambda leaf: leaf + 1, TREE)])
    assert trees.equal(trees.row(rows, 0), TREE)
    assert rows.left["a"].shape == (2, 2, 3)


def test_bytes_are_counted_by_type():
    assert trees.num_bytes(TREE) == 6 * 4 + 2 * 8 + 2 * 4


def test_equal_sees_one_bit():
    other = trees.map(torch.clone, TREE)
    assert trees.equal(TREE, other)
    other.left["a"][0, 0] += 1e-7
    assert not trees.equal(TREE, other)


def test_what_is_not_a_tree_is_refused():
    with pytest.raises(TypeError, match="not list"):
        trees.map(torch.clone, [torch.ones(1)])
