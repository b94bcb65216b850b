"""Functions as values: equality, calls, and compilation."""

import torch

from remuda.tensors import calculus
from remuda.tensors.functions import Partial


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


def test_a_partial_is_compiled_without_a_graph_break():
    scale = Scale(2.0)

    def both(x):  # one partial made outside, one inside the compiled code
        return outside(x) + calculus.stacked(Partial(scale.apply, 1.0))(x)

    outside = calculus.stacked(Partial(scale.apply, 3.0))
    compiled = torch.compile(both, fullgraph=True, backend="eager")
    assert compiled(torch.arange(3.0)).tolist() == [4.0, 8.0, 12.0]
