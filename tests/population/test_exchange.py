"""Derangements and lost members as index tables."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from remuda.population import derangement, survivors


@given(st.integers(2, 40), st.integers(0, 1 << 60))
def test_a_derangement_moves_everyone_and_loses_nobody(size, key):
    source = derangement(key, torch.ones(size, dtype=torch.bool))
    assert sorted(source.tolist()) == list(range(size))
    assert all(source[i] != i for i in range(size))


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.integers(0, 1 << 60))
def test_only_the_living_exchange(alive, key):
    source = derangement(key, torch.tensor(alive)).tolist()
    places = [i for i, here in enumerate(alive) if here]
    assert [source[i] for i, here in enumerate(alive) if not here] == [
        i for i, here in enumerate(alive) if not here
    ]
    assert sorted(source[i] for i in places) == places
    assert len(places) < 2 or all(source[i] != i for i in places)


def test_all_derangements_are_equally_likely():
    everyone = torch.ones(4, dtype=torch.bool)
    counts: dict[tuple, int] = {}
    for key in range(1800):
        table = tuple(derangement(key, everyone).tolist())
        counts[table] = counts.get(table, 0) + 1
    assert len(counts) == 9 and min(counts.values()) > 150 and max(counts.values()) < 250


@given(st.integers(1, 20), st.integers(0, 1 << 60))
def test_losses_add_up_and_spare_the_last(size, key):
    before = survivors(key, size, 0)
    assert before.all()
    for num_lost in range(1, size + 3):
        now = survivors(key, size, num_lost)
        assert int(now.sum()) == max(1, size - num_lost)
        assert not (now & ~before).any(), "nobody comes back"
        before = now
