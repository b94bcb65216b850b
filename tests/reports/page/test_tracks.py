"""The arithmetic of thinning, on numbers made by hand."""

import math

import pytest

from remuda.reports.page.tracks import Track

from .pages import decode

NAN = math.nan


def track_of(rows, stride=1):
    track = Track(len(rows[0]))
    for t, row in enumerate(rows, start=1):
        track.add(row)
        if t % stride == 0:
            track.close()
    return track


def equal(found, expected) -> bool:
    return list(found) == pytest.approx(expected, nan_ok=True)


def test_points_are_means_of_consecutive_rounds():
    track = track_of([[1, 10], [3, 30], [5, 50], [7, 70], [8, 80]], stride=2)
    assert list(track.points) == [2, 20, 6, 60] and track.open_point() == [8, 80]
    assert list(track.values(1, with_open=True)) == [6, 60, 8, 80]
    assert list(track.values(1, with_open=False)) == [6, 60]


def test_only_finite_values_count():
    track = track_of([[1, NAN], [3, NAN], [math.inf, 5], [4, 7]], stride=2)
    assert equal(track.points, [2, NAN, 4, 6])


def test_halving_averages_pairs_of_points():
    track = track_of([[0, 8], [2, 4], [NAN, 1], [5, 3]])
    track.halve()
    assert equal(track.points, [1, 6, 5, 2])
    track.halve()
    assert equal(track.points, [3, 4])


def test_new_columns_have_no_earlier_values():
    track = track_of([[1, 2], [3, 4], [5, 6]], stride=2)
    track.widen(3)
    track.add([7, 8, 9])
    assert equal(track.points, [2, 3, NAN]) and track.open_point() == [6, 7, 9]


def test_a_quantity_that_appears_later_starts_with_gaps():
    assert equal(Track(2, num_points=1).points, [NAN, NAN])
    assert list(Track(1, num_points=2, blank=0.0).points) == [0, 0]
    assert equal(Track(2).open_point(), [NAN, NAN])


def test_encoding_has_32_bits_and_no_infinity():
    track = track_of([[0.5, -3], [1e39, 2]])
    assert equal(decode(track.encoded(0, with_open=False)), [0.5, -3, NAN, 2])
