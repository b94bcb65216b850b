import math

import pytest

from remuda.reports.page.curves import MAX_POINTS, MAX_VALUES, Curve, mean, quantile
from remuda.reports.page.pictures import evenly


def curve_of(rows, stride=1):
    curve = Curve(stride=stride)
    for t, row in enumerate(rows, start=1):
        curve.add(t, row)
    curve.close()
    return curve


def test_points_are_means_of_consecutive_rounds():
    curve = curve_of([[1, 10], [3, 30], [5, 50], [7, 70], [8, 80]], stride=2)
    assert curve.rounds == [1.5, 3.5, 5]
    assert curve.rows == [[2, 20], [6, 60], [8, 80]]
    assert curve.member(1) == [20, 60, 80]
    assert curve.means() == [11, 33, 44]


def test_no_point_mixes_two_numbers_of_members():
    curve = curve_of([[1, 1], [3, 3], [5, 5], [7]], stride=4)
    assert curve.rows == [[3, 3], [7]]
    assert curve.is_ragged and curve.width == 2


@pytest.mark.parametrize(
    ("rounds", "members"), [(1, 1), (2_000, 10), (2_001, 1), (100_000, 10), (10_000, 1_000)]
)
def test_strides_limit_points_and_values(rounds, members):
    points = math.ceil(rounds / Curve.for_rounds(rounds, members).stride)
    assert points <= MAX_POINTS and points * members <= MAX_VALUES
    assert points >= min(rounds, 200) / 2


def test_values_that_are_not_finite_are_ignored():
    assert mean([1.0, math.nan, 3.0, math.inf]) == 2.0
    assert math.isnan(mean([math.nan]))
    assert [quantile([math.nan, 4, 2, 3, 1, 5], q) for q in (0, 0.5, 1)] == [1, 3, 5]


def test_evenly_keeps_both_ends():
    assert evenly([1, 2, 3], 8) == [1, 2, 3]
    assert evenly(range(29), 8) == [0, 4, 8, 12, 16, 20, 24, 28]
    assert evenly(range(9), 8)[-1] == 8
