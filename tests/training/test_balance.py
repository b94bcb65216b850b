"""Speeds of ranks, the decision to move members, and the phases of a move."""

from contextlib import ExitStack

import pytest

from remuda import config
from remuda.errors import Interrupted, RanksLost, resume_command
from remuda.record import Record
from remuda.training import balance
from remuda.training.balance import Plan
from remuda.training.state import Phase
from tests.training.driving import Driver
from tests.training.test_run import assert_same_run

EQUAL = [range(0, 6), range(6, 12)]


def timings(*rounds):
    """Add rounds of these seconds; None stands for a round in which a program was compiled."""
    found = None
    for seconds in rounds:
        found = balance.add_round(found, seconds or 9.0, is_preparing=seconds is None)
    return found


def test_the_speed_is_that_of_the_median_round():
    assert balance.speed(None, 6) is None
    assert balance.speed(timings(50.0), 6) is None, "the first round includes preparations"
    assert balance.speed(timings(50.0, 2.0), 6) == 3.0
    assert balance.speed(timings(50.0, 2.0, 9.0, 1.5), 6) == 3.0


def test_rounds_before_and_during_a_compilation_do_not_count():
    assert balance.speed(timings(50.0, 2.0, 2.0, None, None), 6) is None
    assert balance.speed(timings(50.0, 2.0, 2.0, None, 7.0, 1.0), 6) == 6.0


def test_only_recent_rounds_count():
    assert balance.speed(timings(1.0, *[8.0] * 100, *[2.0] * balance.RECENT), 6) == 3.0


def test_a_speed_is_settled_after_five_rounds_and_later_after_each_move():
    def settled(num_rounds, num_moves=0):
        return balance.settled_speed(timings(*[2.0] * num_rounds), 6, num_rounds, num_moves)

    assert settled(0) is None and settled(5) is None, "the first round is not measured"
    assert settled(6) == 3.0
    assert settled(9, 1) is None and settled(10, 1) == 3.0
    assert settled(39, 3) is None and settled(40, 3) == 3.0
    assert balance.settled_speed(timings(*[2.0] * 9, None), 6, 10, 0) is None, "just compiled"


def test_members_move_only_if_that_saves_more_than_a_tenth():
    plan = balance.plan(EQUAL, [3.0, 1.0])
    assert plan == Plan([range(0, 9), range(9, 12)], [3.0, 1.0], 0.5), "3 s instead of 6 s"
    assert balance.plan(EQUAL, [2.0, 2.0]) is None
    # Seven and five members: 7 s instead of 6 / 0.8 = 7.5 s saves 7 %.
    assert balance.plan(EQUAL, [1.0, 0.8]) is None
    # 7 s instead of 6 / 0.72 = 8.3 s saves 16 %.
    plan = balance.plan(EQUAL, [1.0, 0.72])
    assert plan.spans == [range(0, 7), range(7, 12)] and plan.saved == pytest.approx(0.16)
    assert balance.plan([range(0, 9), range(9, 12)], [3.0, 1.0]) is None, "already there"
    assert balance.plan(EQUAL, [3.0, None]) is None, "not all speeds are known"


def test_a_message_lists_the_new_placement():
    plan = Plan([range(0, 9), range(9, 12)], [3.0, 1.0], 0.5)
    assert balance.describe(plan) == (
        "moving members to faster ranks: 9 on rank 0 and 3 on rank 1; a round should take 50% less "
        "time"
    )
    many = Plan([range(0, 2), *(range(i, i + 1) for i in range(2, 10))], [1.0] * 9, 0.25)
    assert "between 1 and 2 members on each rank" in balance.describe(many)


@pytest.mark.parametrize(
    "setting, is_possible",
    [
        ("engine.threads=1", True),
        ("engine.balance=false", False),
        ("engine.deterministic=true", False),
        ("data.path=/data/{rank}", False),
    ],
)
def test_members_stay_where_they_must(setting, is_possible):
    values = config.from_dict(config.override({"engine": {"name": "mpi"}}, [setting]))
    assert balance.is_possible(values, EQUAL) is is_possible
    assert not balance.is_possible(values, [range(0, 1), range(1, 2)]), "one member on each rank"
    assert not balance.is_possible(values, [range(0, 2)]), "one rank"


@pytest.fixture
def start(tiny, tmp_path, monkeypatch):
    """Return a function that makes drivers of runs that move their members after round 2."""
    tiny["run"] |= {"rounds": 4, "checkpoint_every": 2, "sample_every": 2}
    monkeypatch.setattr(balance, "is_possible", lambda *_: True)
    plans = iter([None, Plan([range(0, 2)], [1.0], 0.5)])  # after round 0 and after round 2
    monkeypatch.setattr(balance, "plan", lambda *_: next(plans, None))
    with ExitStack() as drivers:

        def make(name="run", action="move"):
            driver = Driver(tiny, tmp_path / name, action)
            drivers.callback(driver.close)
            return driver

        yield make


MOVE = [Phase.BALANCE, Phase.ASSEMBLE, Phase.OPEN, Phase.RESTORE, Phase.WATCH, Phase.BEGIN]


def test_a_move_continues_from_the_checkpoint(start):
    moved, plain = start("moved"), start("plain")
    moved.run()
    plain.run()  # no plan is left
    first = len(moved.phases) - moved.phases[::-1].index(Phase.ASSEMBLE) - 2
    assert moved.phases[first : first + 7] == [*MOVE, Phase.KEEP]
    assert moved.phases.count(Phase.COMPUTE) == 4, "no round runs twice"
    assert_same_run(plain.training.folder, moved.training.folder)


@pytest.mark.parametrize("phase", [Phase.BALANCE, Phase.ASSEMBLE, Phase.RESTORE])
def test_an_interruption_during_a_move_keeps_the_checkpoint(start, phase):
    driver = start()
    driver.run_until(Phase.BALANCE, after=2)
    driver.run_until(phase)
    driver.communicator.event = KeyboardInterrupt()
    with pytest.raises(Interrupted, match=resume_command(driver.training.folder)):
        driver.run()
    assert driver.phases[-3:] == [phase, Phase.MEET, Phase.STOP]
    assert Record.open(driver.training.folder).newest()[0].round == 2


@pytest.mark.parametrize("action", ["drop", "move"])
def test_no_member_is_lost_if_a_rank_fails_during_a_move(start, action):
    driver = start(action=action)
    driver.run_until(Phase.BALANCE, after=2)
    driver.run_until(Phase.RESTORE)
    driver.communicator.event = RanksLost("ranks were lost")
    driver.run()
    (failure,) = Record.open(driver.training.folder).failures()
    assert (failure["round"], failure["members"]) == (2, [])
    assert len(Record.open(driver.training.folder).rounds()) == 4
