"""Functions as values: equality, calls, and compilation."""

import torch

from remuda.tensors import calculus
from remuda.tensors.functions import Partial, plain


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def apply(self, offset, x):
        return self.factor * x + offset


def test_partials_of_equal_parts_are_equal():
    scale = Scale(2.0)
    one, other = Partial(scale.apply, 1.0), Partial(scale.apply, 1.0)
    assert one == other and hash(one) == hash(other)
    assert one != Partial(scale.apply, 3.0) and one != Partial(Scale(2.0).apply, 1.0)
    assert one(torch.tensor(4.0)) == 9.0


def test_a_plain_partial_is_compiled_without_a_graph_break():
    function = plain(Partial(Scale(2.0).apply, 3.0))
    compiled = torch.compile(calculus.stacked(function), fullgraph=True, backend="eager")
    assert compiled(torch.arange(3.0)).tolist() == [3.0, 5.0, 7.0]
    assert plain(torch.sin) is torch.sin
