"""Which rank hosts which members, and which rows travel between ranks."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remuda.engines.mpi.spans import deliver, spans


def test_spans_of_small_populations():
    assert spans(7, 3) == [range(0, 3), range(3, 5), range(5, 7)]
    assert spans(4, 4) == [range(i, i + 1) for i in range(4)]
    assert spans(5, 1) == [range(0, 5)]


@given(st.integers(1, 60), st.integers(1, 60))
def test_spans_are_balanced(size, num_ranks):
    if num_ranks > size:
        with pytest.raises(ValueError):
            spans(size, num_ranks)
        return
    hosted = spans(size, num_ranks)
    assert [member for span in hosted for member in span] == list(range(size))
    assert max(map(len, hosted)) - min(map(len, hosted)) <= 1


def lengths(size, speeds):
    return [len(span) for span in spans(size, len(speeds), speeds)]


def test_faster_ranks_host_more_members():
    assert spans(8, 2, [3.0, 1.0]) == [range(0, 6), range(6, 8)]
    assert lengths(12, [1.0, 3.0]) == [3, 9]
    assert lengths(10, [3.0, 1.0]) == [8, 2], "8/3 and 2/1 seconds; 7 and 3 would take 3"
    assert lengths(6, [100.0, 1.0, 1.0]) == [4, 1, 1], "every rank hosts a member"
    assert lengths(7, [2.0, 1.0, 4.0]) == [2, 1, 4]
    assert lengths(7, [5.0, 5.0, 5.0]) == [3, 2, 2], "equal speeds, equal spans"


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=3), st.integers(0, 9))
def test_no_other_placement_has_a_faster_slowest_rank(speeds, more):
    size, num_ranks = len(speeds) + more, len(speeds)

    def slowest(counts):
        return max(number / speed for number, speed in zip(counts, speeds, strict=True))

    choices = product(range(1, size + 1), repeat=num_ranks)
    best = min(slowest(counts) for counts in choices if sum(counts) == size)
    assert slowest(lengths(size, speeds)) == best


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=20))
def test_a_placement_is_the_best_one_for_speeds_like_its_lengths(numbers):
    assert lengths(sum(numbers), numbers) == numbers


def test_a_delivery_between_two_ranks():
    """Rank 0 hosts members 0, 1 and 2, and rank 1 hosts members 3 and 4."""
    table = torch.tensor([[0, 4], [4, 1], [2, 2], [1, 3], [1, 0]])
    here, there = (deliver(table, spans(5, 2), rank) for rank in range(2))
    assert here.needed == [0, 1, 2, 4] and there.needed == [0, 1, 3]
    assert here.incoming == {0: slice(0, 3), 1: slice(3, 4)}
    assert there.incoming == {0: slice(0, 2), 1: slice(2, 3)}
    assert here.outgoing == {1: [0, 1]} and there.outgoing == {0: [1]}
    assert here.places.tolist() == [[0, 3], [3, 1], [2, 2]]
    assert there.places.tolist() == [[1, 2], [1, 0]]


@given(st.data(), st.integers(1, 12), st.integers(1, 12), st.integers(0, 3))
def test_ranks_expect_the_rows_that_others_send(data, size, num_ranks, width):
    num_ranks = min(size, num_ranks)
    shape = (size, width) if width else (size,)
    count = math.prod(shape)
    entries = data.draw(st.lists(st.integers(0, size - 1), min_size=count, max_size=count))
    table, hosted = torch.tensor(entries).reshape(shape), spans(size, num_ranks)
    plans = [deliver(table, hosted, rank) for rank in range(num_ranks)]
    for rank, plan in enumerate(plans):
        for other, rows in plan.outgoing.items():
            part = plans[other].incoming[rank]
            assert [hosted[rank].start + row for row in rows] == plans[other].needed[part]
        arrivals = sum(part.stop - part.start for part in plan.incoming.values())
        assert arrivals == len(plan.needed) == len(set(plan.needed))
        taken = torch.tensor(plan.needed)[plan.places]
        assert torch.equal(taken, table[hosted[rank].start : hosted[rank].stop])
