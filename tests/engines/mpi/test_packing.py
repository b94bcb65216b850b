"""Turn rows into bytes and back."""

from collections import namedtuple
from typing import NamedTuple

import pytest
import torch

from remuda.engines.mpi import packing
from remuda.tensors import trees


class Pair(NamedTuple):
    left: torch.Tensor
    right: dict


ROWS = Pair(
    torch.arange(6.0).view(3, 2),
    {
        "flag": torch.tensor([True, False, True]),
        "n": (torch.arange(3), ()),
        "none": torch.zeros(3, 0),
    },
)


def test_packed_bytes_of_small_rows():
    leaves = [torch.tensor([[1, 2], [3, 4]], dtype=torch.uint8), torch.tensor([True, False])]
    assert packing.row_bytes(leaves) == 3
    assert packing.pack(leaves, slice(None)).tolist() == [1, 2, 3, 4, 1, 0]
    assert packing.pack(leaves, [1]).tolist() == [3, 4, 0]
    assert packing.pack([], slice(None)).tolist() == []


def test_unpacking_restores_a_slice_of_rows():
    leaves = trees.leaves(ROWS)
    target = [torch.full_like(leaf, 1) for leaf in leaves]
    packing.unpack(packing.pack(leaves, slice(0, 2)), target, slice(1, 3))
    for leaf, new in zip(leaves, target, strict=True):
        assert torch.equal(new[1:], leaf[:2]) and (new[:1] == 1).all()


def test_views_with_odd_strides_can_be_packed():
    leaf = torch.arange(3.0).view(3, 1).t()  # (1, 3)
    single = torch.ones(1).expand(1, 1)
    assert packing.pack([leaf, single], slice(None)).view(torch.float32).tolist() == [0, 1, 2, 1]


def test_rows_of_different_sizes_are_refused():
    with pytest.raises(AssertionError, match="different sizes"):
        packing.unpack(torch.zeros(5, dtype=torch.uint8), [torch.zeros(1)], slice(None))


def test_a_receiver_builds_the_same_tree():
    text = packing.describe(ROWS)
    first = trees.map(lambda leaf: leaf[:1], ROWS)
    assert text == packing.describe(first), "the number of rows does not matter"
    built = packing.build(text, 2, torch.device("cpu"))
    assert isinstance(built, Pair) and isinstance(built.right["n"], tuple)
    assert built.right["n"][1] == ()
    for (name, a), (other, b) in zip(*map(trees.named_leaves, (ROWS, built)), strict=True):
        assert name == other and a.dtype == b.dtype and b.shape == (2, *a.shape[1:])


def test_a_class_that_other_ranks_cannot_find_is_refused():
    hidden = namedtuple("hidden", "x")
    with pytest.raises(TypeError, match="top of a module"):
        packing.describe(hidden(torch.zeros(2)))
