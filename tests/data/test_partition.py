from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remuda.data import DataConfig, partition
from remuda.data.partitions import evenly, places_in_class
from remuda.errors import UserError

_labels = st.lists(st.integers(0, 4), min_size=1, max_size=80)
_seeds = st.integers(0, 2**31)


def _shares(labels, num_members, seed=0, **values):
    return partition(torch.tensor(labels), num_members, DataConfig(**values), 5, seed)


def _is_a_cover(shares, count):
    return sorted(torch.cat(shares).tolist()) == list(range(count))


@given(_labels, st.integers(1, 12), _seeds)
def test_iid_shares_are_disjoint_near_equal_and_cover_all(labels, num_members, seed):
    if num_members > len(labels):
        with pytest.raises(UserError, match="cannot share"):
            _shares(labels, num_members, seed, partition="iid")
        return
    shares = _shares(labels, num_members, seed, partition="iid")
    sizes = [len(share) for share in shares]
    assert _is_a_cover(shares, len(labels)) and max(sizes) - min(sizes) <= 1


@given(_labels, st.integers(1, 12), _seeds, st.floats(1e-6, 1e6))
def test_dirichlet_shares_are_disjoint_cover_all_and_leave_no_member_empty(
    labels, num_members, seed, alpha
):
    if num_members > len(labels):
        return
    shares = _shares(labels, num_members, seed, partition="dirichlet", alpha=alpha)
    assert len(shares) == num_members and _is_a_cover(shares, len(labels))
    assert all(len(share) for share in shares)


@given(_labels, st.integers(1, 12), _seeds, st.floats(0.01, 1))
def test_a_subset_has_its_size_and_no_repeats(labels, num_members, seed, fraction):
    for share in _shares(labels, num_members, seed, partition="subset", fraction=fraction):
        assert len(share) == max(1, round(fraction * len(labels))) == len(share.unique())
        assert share.min() >= 0 and share.max() < len(labels)


@settings(max_examples=30)
@given(_labels, st.sampled_from(["iid", "dirichlet", "subset"]), _seeds)
def test_only_the_seed_decides(labels, rule, seed):
    first, again = (_shares(labels, 1, seed, partition=rule) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one, other) and one.dtype == torch.int64


@given(_labels, st.integers(0, 100))
def test_evenly_spreads_over_the_classes(labels, limit):
    labels = np.array(labels)
    keep = evenly(labels, limit)
    wanted = len(labels) if limit == 0 else min(limit, len(labels))
    assert len(keep) == wanted and (np.diff(keep) > 0).all()
    kept, stored = np.bincount(labels[keep], minlength=5), np.bincount(labels, minlength=5)
    # A class with images left has at most one image less than any other.
    for label in range(5):
        assert kept[label] == stored[label] or kept[label] >= kept.max() - 1


def test_places_count_within_each_class():
    assert places_in_class(np.array([3, 1, 3, 3, 1])).tolist() == [0, 0, 1, 2, 1]


def test_seeds_and_members_draw_differently():
    labels = [0, 1, 2, 3, 4] * 20
    for rule in ("iid", "dirichlet", "subset"):
        a, b = (_shares(labels, 2, seed, partition=rule) for seed in (0, 1))
        assert not torch.equal(a[0], b[0])
    first, second = _shares(labels, 2, partition="subset")
    assert not torch.equal(first, second)


def test_class_gives_member_i_the_images_of_class_i():
    shares = _shares([2, 0, 1, 0, 2], 3, partition="class")
    assert [share.tolist() for share in shares] == [[1, 3], [2], [0, 4]]
    assert len(_shares([2, 0, 1, 0, 2], 2, partition="class")) == 2


def test_class_errors():
    with pytest.raises(UserError, match="class 1 has no images"):
        _shares([0, 2, 2], 3, partition="class")
    with pytest.raises(UserError, match="6 members and 5 classes"):
        _shares([0, 1, 2, 3, 4] * 2, 6, partition="class")


def test_alpha_makes_shares_even_or_skewed():
    labels = [0, 1, 2, 3, 4] * 200
    config = DataConfig(partition="dirichlet", alpha=1e6)
    even = partition(torch.tensor(labels), 4, config, 5, 0)
    skewed = partition(torch.tensor(labels), 4, replace(config, alpha=0.01), 5, 0)
    assert {len(share) for share in even} <= set(range(240, 261))

    def largest(share):
        return torch.tensor(labels)[share].bincount(minlength=5).max() / len(share)

    assert max(largest(share) for share in even) < 0.25 < max(largest(share) for share in skewed)


def test_no_images_at_all():
    with pytest.raises(UserError, match="no images"):
        partition(torch.zeros(0, dtype=torch.int64), 2, DataConfig(partition="subset"), 5, 0)
