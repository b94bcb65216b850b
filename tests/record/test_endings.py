"""The best round and the early end of a run, from scores made by hand."""

import math

import pytest

from remuda.record.endings import best, ending, num_stale, protected, ranking
from remuda.record.scores import Score, parse_score
from tests.reports.page.records import score_line

FID, KID, IS = "fid_10k_train_lenet", "kid_10k_train_lenet", "digits-score_10k_lenet"


def made(values: dict[int, float], name: str = FID) -> list[Score]:
    lines = [score_line(t, name, value) for t, value in values.items()]
    return [parse_score(line) for line in lines]


def rounds(scores):
    return [score.round for score in scores]


def test_lower_or_higher_values_come_first():
    values = {10: 5.0, 20: 3.0, 30: 4.0}
    assert rounds(ranking(made(values), FID)) == [20, 30, 10]
    assert rounds(ranking(made(values, IS), IS)) == [10, 30, 20]


def test_of_equal_values_the_earliest_comes_first():
    values = {30: 4.0, 10: 4.0, 20: 4.0}
    for name in (FID, IS):
        assert rounds(ranking(made(values, name), name)) == [10, 20, 30]


def test_other_scores_and_numbers_that_are_not_finite_do_not_count():
    scores = [*made({10: 5.0, 20: math.nan, 30: -math.inf}), *made({10: 1.0, 40: 0.1}, KID)]
    assert rounds(ranking(scores, FID)) == [10]
    assert ranking(scores, "") == []


def test_the_best_round_has_a_checkpoint():
    scores = made({10: 5.0, 20: 3.0, 30: 4.0})
    assert best(scores, FID, {10, 20, 30}).round == 20
    assert best(scores, FID, {10, 30}).round == 30
    assert best(scores, FID, set()) is None and best([], FID, {10}) is None


def test_a_checkpoint_stays_until_a_better_one_is_complete():
    scores = made({10: 5.0, 20: 3.0, 30: 4.0})
    assert protected(scores, FID, {10, 20, 30}) == {20}
    assert protected(scores, FID, {10}) == {10, 20, 30}, "other ranks may write 20 and 30"


def test_the_time_of_the_rounds_ends_a_run():
    run = {"max_minutes": 10.0}
    assert ending(run, [], 40, 599.9) is None
    end = ending(run, [], 40, 600.0)
    assert end.why == "stopped after 10.0 of 10 minutes"
    assert end.remedy == "run.max_minutes=20"
    assert ending({"max_minutes": 0.05}, [], 1, 6).why == "stopped after 0.100 of 0.05 minutes"
    assert ending({"max_minutes": 0.0}, [], 1, 1e9) is None
    assert ending({}, [], 1, 1e9) is None, "older runs lack the setting"


def test_the_remedy_suffices_after_a_very_long_round():
    end = ending({"max_minutes": 1.0}, [], 1, 60 * 1234.0)
    assert float(end.remedy.split("=")[1]) > 1234


@pytest.mark.parametrize(
    "values, t, stale",
    [
        ({}, 5, 0),
        ({1: 5.0}, 2, 0),
        ({1: 5.0, 2: 4.0, 3: 4.0, 4: 6.0}, 5, 2),  # an equal value is no improvement
        ({1: 5.0, 2: 4.0, 3: 4.0, 4: 6.0}, 4, 1),  # round 4 does not count yet
        ({1: 5.0, 2: math.nan, 3: 6.0}, 4, 2),
        ({1: math.nan}, 2, 0),
    ],
)
def test_scorings_since_the_best_one(values, t, stale):
    assert num_stale(made(values), FID, t) == stale


def test_patience_ends_a_run():
    run = {"patience": 2, "keep_best": FID}
    scores = made({10: 5.0, 20: 3.0, 30: 4.0, 40: 3.5})
    assert ending(run, scores, 40, 0.0) is None
    end = ending(run, scores, 41, 0.0)
    assert end.why == f"stopped because {FID} has not improved in 2 scorings since round 20 (3)"
    assert end.remedy == "run.patience=4"
