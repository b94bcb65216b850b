"""Who hosts whom, and whose rows go where."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remuda.engines.mpi.spans import deliver, spans


def test_spans_by_hand():
    assert spans(7, 3) == [range(0, 3), range(3, 5), range(5, 7)]
    assert spans(4, 4) == [range(i, i + 1) for i in range(4)]
    assert spans(5, 1) == [range(0, 5)]


@given(st.integers(1, 60), st.integers(1, 60))
def test_spans_are_balanced(size, num_ranks):
    if num_ranks > size:
        with pytest.raises(ValueError):
            spans(size, num_ranks)
        return
    hosts = spans(size, num_ranks)
    assert [member for host in hosts for member in host] == list(range(size))
    assert max(map(len, hosts)) - min(map(len, hosts)) <= 1


def test_a_delivery_by_hand():
    """Members 0, 1, 2 at rank 0, members 3, 4 at rank 1."""
    table = torch.tensor([[0, 4], [4, 1], [2, 2], [1, 3], [1, 0]])
    here, there = (deliver(table, spans(5, 2), rank) for rank in range(2))
    assert here.needed == [0, 1, 2, 4] and there.needed == [0, 1, 3]
    assert here.incoming == {0: slice(0, 3), 1: slice(3, 4)} and there.incoming == {
        0: slice(0, 2),
        1: slice(2, 3),
    }
    assert here.outgoing == {1: [0, 1]} and there.outgoing == {0: [1]}
    assert here.places.tolist() == [[0, 3], [3, 1], [2, 2]] and there.places.tolist() == [
        [1, 2],
        [1, 0],
    ]


@given(st.data(), st.integers(1, 12), st.integers(1, 12), st.integers(0, 3))
def test_what_one_sends_another_expects(data, size, num_ranks, width):
    num_ranks = min(size, num_ranks)
    shape = (size, width) if width else (size,)
    entries = data.draw(
        st.lists(
            st.integers(0, size - 1), min_size=size * max(1, width), max_size=size * max(1, width)
        )
    )
    table, hosts = torch.tensor(entries).reshape(shape), spans(size, num_ranks)
    plans = [deliver(table, hosts, rank) for rank in range(num_ranks)]
    for rank, plan in enumerate(plans):
        for other, rows in plan.outgoing.items():
            part = plans[other].incoming[rank]
            assert [hosts[rank].start + row for row in rows] == plans[other].needed[part]
        arrivals = sum(part.stop - part.start for part in plan.incoming.values())
        assert arrivals == len(plan.needed) == len(set(plan.needed))
        assert torch.equal(
            torch.tensor(plan.needed)[plan.places], table[hosts[rank].start : hosts[rank].stop]
        )
