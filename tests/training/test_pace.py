"""When checkpoints are due, on times made by hand."""

import pytest

from remuda.config import RunConfig, from_dict
from remuda.errors import UserError
from remuda.training.pace import Pace, decide, is_due_by_rounds, num_checkpoints, vote


def test_intervals_double_up_to_the_limit():
    pace = Pace(limit=60, now=100)
    times, now = [], 100.0
    while now < 300:
        now += 1
        if pace.is_due(now):
            times.append(now)
            pace.note(now, blocked=0.1)
    assert times == [110, 130, 170, 230, 290]


def test_a_slow_save_lengthens_the_next_interval():
    """Blocking for 6 s of 200 s is 3 %."""
    pace = Pace(limit=60, now=0)
    pace.note(10, blocked=6)
    assert not pace.is_due(209) and pace.is_due(210)
    pace.note(210, blocked=0.5)
    assert not pace.is_due(249) and pace.is_due(250)


def test_a_short_limit_holds_from_the_start():
    pace = Pace(limit=3, now=0)
    assert not pace.is_due(2.9) and pace.is_due(3)
    pace.note(3, blocked=0)
    assert pace.is_due(6)
    assert not Pace(limit=float("inf"), now=0).is_due(9.9)


@pytest.mark.parametrize("every, due", [(0, [7]), (3, [3, 6, 7]), (1, [1, 2, 3, 4, 5, 6, 7])])
def test_the_last_round_always_gets_a_checkpoint(every, due):
    config = from_dict({"run": {"rounds": 7, "checkpoint_every": every}})
    assert [t for t in range(1, 8) if is_due_by_rounds(t, config, t == 7)] == due


def test_the_number_of_checkpoints_of_a_run():
    """Rounds of 6 s: by time after rounds 2, 6, 13 (40 s), 27 (80 s), 47 and 67 (120 s)."""
    values = {"rounds": 70, "checkpoint_minutes": 2.0}
    assert num_checkpoints(from_dict({"run": values}), 6, 0.1) == 7
    assert num_checkpoints(from_dict({"run": values}), 6, 7.2) == 3, "240 s lie between two"
    every = from_dict({"run": values | {"checkpoint_every": 1}})
    assert num_checkpoints(every, 6, 0.1) == 70


def test_by_default_checkpoints_are_due_by_time():
    run = RunConfig().run
    assert run.checkpoint_every == 0 and run.checkpoint_minutes == 2


@pytest.mark.parametrize(
    "setting, sentence",
    [
        ({"checkpoint_every": -1}, r"run\.checkpoint_every must be at least 0, not -1"),
        ({"checkpoint_minutes": 0}, r"run\.checkpoint_minutes must be above 0, not 0"),
        ({"checkpoint_minutes": float("nan")}, r"run\.checkpoint_minutes must be above 0, not nan"),
    ],
)
def test_impossible_settings_are_refused(setting, sentence):
    with pytest.raises(UserError, match=sentence):
        from_dict({"run": setting})


@pytest.mark.parametrize(
    "votes, is_saved",
    [
        ([(False, True), (False, False)], True),
        ([(False, False), (False, False)], False),
        ([(False, True), (True, False)], False),  # rank 1 is still writing
        ([(True, True), (False, False)], False),
        ([(True, True), (True, False)], False),
    ],
)
def test_all_ranks_decide_alike_from_the_largest_number(votes, is_saved):
    """Rank 0 says whether a checkpoint is due; every rank says whether it is busy."""
    assert decide(max(vote(9, *each) for each in votes)) == (9, is_saved, False)


@pytest.mark.parametrize("is_busy", [False, True])
def test_all_ranks_know_that_the_run_is_over_from_the_largest_number(is_busy):
    root, other = vote(9, False, True, is_over=True), vote(9, is_busy, False)
    assert decide(max(root, other)).is_over and not decide(other).is_over


def test_a_run_that_keeps_its_best_checkpoint_saves_every_scored_round():
    values = {"run": {"rounds": 7, "keep_best": "fid"}, "scores": {"every": 3}}
    config = from_dict(values)
    assert [t for t in range(1, 8) if is_due_by_rounds(t, config, t == 7)] == [3, 6, 7]
