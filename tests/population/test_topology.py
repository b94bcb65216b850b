"""Neighbourhoods on a torus, by their properties and by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remuda.errors import UserError
from remuda.population.topology import NEIGHBOURHOODS, links, neighbourhoods, read_schedule

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
    """Cell (1, 1) of a 4x4 torus with west, north, east, south; and a corner that wraps around."""
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


@given(
    SIDES,
    SIDES,
    st.sampled_from(sorted(NEIGHBOURHOODS)),
    st.integers(0, 2**36 - 1),
    st.integers(0, 3),
)
def test_links_without_those_who_left(height, width, kind, bits, extra):
    size = height * width
    alive = torch.tensor([bool(bits >> cell & 1) for cell in range(size)])
    table = neighbourhoods(height, width, kind)
    found = links(table, alive, table.shape[1] + extra)
    assert found.table.shape == found.present.shape == (size, table.shape[1] + extra)
    for cell in range(size):
        linked = found.table[cell][found.present[cell]].tolist()
        expected = [other for other in table[cell].tolist() if alive[other] and alive[cell]]
        assert linked == (expected or [cell]), "cells that left keep only themselves"
        assert (found.table[cell][~found.present[cell]] == cell).all()
        assert all(cell in found.table[other][found.present[other]] for other in linked)


def test_schedules():
    assert read_schedule("") == {}
    assert read_schedule("51: moore, 101:none") == {51: "moore", 101: "none"}
    for text in ("moore", "0: moore", "5: hexagons", "x: ring", "5 ring"):
        with pytest.raises(UserError, match="in the neighbourhood schedule"):
            read_schedule(text)
