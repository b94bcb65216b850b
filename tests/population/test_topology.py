"""Neighbourhoods on a torus, by their properties and by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda.errors import UserError
from remuda.population.topology import NEIGHBOURHOODS, neighbourhoods

SIDES = st.integers(1, 6)


@given(SIDES, SIDES, st.sampled_from(sorted(NEIGHBOURHOODS)))
def test_links_go_both_ways_and_no_cell_stands_twice(height, width, kind):
    table = neighbourhoods(height, width, kind).tolist()
    assert len(table) == height * width
    for cell, around in enumerate(table):
        assert around[0] == cell and len(set(around)) == len(around)
        assert all(0 <= other < height * width for other in around)
        assert all(cell in table[other] for other in around)


def test_the_papers_neighbourhood_by_hand():
    """Cell (1, 1) of a 4x4 torus and its west, north, east and south; and a corner, which wraps around."""
    table = neighbourhoods(4, 4, "von-neumann").tolist()
    assert table[5] == [5, 4, 1, 6, 9]
    assert table[0] == [0, 3, 12, 1, 4]


@pytest.mark.parametrize(
    ("height", "width", "kind", "size"),
    [
        (1, 1, "von-neumann", 1),
        (2, 2, "von-neumann", 3),
        (3, 3, "von-neumann", 5),
        (2, 3, "von-neumann", 4),
        (1, 5, "von-neumann", 3),
        (2, 2, "moore", 4),
        (3, 3, "moore", 9),
        (4, 5, "moore", 9),
        (1, 2, "ring", 2),
        (2, 2, "ring", 3),
        (4, 4, "none", 1),
    ],
)
def test_sizes(height, width, kind, size):
    assert neighbourhoods(height, width, kind).shape == (height * width, size)


def test_bad_grids():
    with pytest.raises(UserError, match="0x3"):
        neighbourhoods(0, 3, "moore")
    with pytest.raises(UserError, match="hexagons"):
        neighbourhoods(3, 3, "hexagons")
