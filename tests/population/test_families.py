"""Families of similar members, from distances that can be checked by hand."""

import numpy as np

from remuda.population.families import find_families, join_nearest


def on_a_line(*places):
    points = np.array(places, dtype=float)
    return np.abs(points[:, None] - points)


def test_the_nearest_members_are_joined_first():
    distances = on_a_line(0, 10, 1, 12, 30)
    assert find_families(distances, 5) == ((0,), (1,), (2,), (3,), (4,))
    assert find_families(distances, 4) == ((0, 2), (1,), (3,), (4,))
    assert find_families(distances, 3) == ((0, 2), (1, 3), (4,))
    assert find_families(distances, 2) == ((0, 1, 2, 3), (4,))
    assert find_families(distances, 1) == ((0, 1, 2, 3, 4),)


def test_the_distance_of_families_is_the_mean_over_their_members():
    """The mean distance from 5 to (0, 1, 2) is 4, and that from 5 to 8.5 is 3.5."""
    assert find_families(on_a_line(0, 1, 2, 5, 8.5), 2) == ((0, 1, 2), (3, 4))
    # The nearest member of (0, 2, 4) is 3.1 away from 7.1, and all are 5.1 on average; 11.5 is
    # 4.4 away.
    assert find_families(on_a_line(0, 2, 4, 7.1, 11.5), 2) == ((0, 1, 2), (3, 4))


def test_of_equal_distances_the_first_counts():
    distances = on_a_line(0, 1, 2, 3)
    assert find_families(distances, 3) == ((0, 1), (2,), (3,))
    before = distances.copy()
    assert find_families(distances, 2) == ((0, 1), (2, 3))
    assert np.array_equal(distances, before)


def test_members_without_a_family_join_the_nearest_one():
    """The mean distance from 7 to (0, 6) is 4, and that from 7 to 10 is 3."""
    distances = on_a_line(0, 6, 10, 7, 1, 8)
    assert join_nearest(((0, 1), (2,)), distances) == ((0, 1, 4), (2, 3, 5))
    assert join_nearest(((0, 1, 2, 3, 4, 5),), distances) == ((0, 1, 2, 3, 4, 5),)
