"""Combine the scores of several sites, on numbers made by hand."""

import math
from statistics import fmean

import pytest
import torch

from remuda.errors import UserError
from remuda.scores.directions import HIGHER, LOWER, worst
from remuda.scores.kinds import Measure
from remuda.scores.pooling import combine


def test_values_are_weighted_by_images():
    measured = [{"kid": Measure(0.1, 0.02)}, {"kid": Measure(0.4, 0.01)}]
    found = combine(measured, [300, 100], [[300], [100]], fmean)
    assert found == {"kid": Measure(pytest.approx((30 + 40) / 400))}


def test_a_sample_counts_if_it_counts_at_one_site():
    hits = [torch.tensor([1, 0, 0, 0]).bool(), torch.tensor([1, 0, 1, 0]).bool()]
    measured = [{"precision": Measure(float(each.double().mean()), hits=each)} for each in hits]
    assert combine(measured, [1, 99], [[1], [99]], fmean)["precision"].value == 0.5


def test_classes_are_weighted_by_their_images_at_the_sites_that_have_them():
    counts = [[10, 30, 0], [30, 0, 20]]
    values = [[1.0, 2.0, math.nan], [5.0, math.nan, 0.5]]
    measured = [{"diversity": Measure(0.0, None, each)} for each in values]
    expected = [(10 * 1 + 30 * 5) / 40, 2.0, 0.5]
    for of_classes, value in ((min, 0.5), (fmean, sum(expected) / 3)):
        found = combine(measured, [40, 50], counts, of_classes)["diversity"]
        assert found.classes == expected and found.value == pytest.approx(value)
    for each in values:
        each[1] = math.nan
    with pytest.raises(UserError, match="no site has enough images of class 1"):
        combine(measured, [40, 50], counts, fmean)


def test_the_worst_site():
    assert worst([3.0, None, 7.0], LOWER) == 2 and worst([3.0, None, 7.0], HIGHER) == 0
    assert worst([3.0, 3.0], LOWER) is None and worst([None, 1.0], LOWER) is None
    assert worst([1.0, 2.0], "") is None
