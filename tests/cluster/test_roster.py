"""Test which ranks are delayed, lost or gone, with a clock that the tests move."""

import pytest

from remuda.cluster.roster import DELAYED, GONE, LOST, ON_TIME, RankStatus, Roster
from remuda.system.processes import Process

ONE, TWO = Process("a", 11, 5), Process("b", 11, 6)  # the same number on two hosts
MACHINE = {"cores": 2, "memory": 8 << 30, "device": "cpu"}


def heartbeat(process, rank=1, members=(2, 3), state="processing", t=4):
    return {
        "process": list(process),
        "rank": rank,
        "members": list(members),
        "state": state,
        "round": t,
    }


class Two:
    """A roster of two processes, each of which has sent one heartbeat."""

    def __init__(self, timeout=15, limit=120):
        self.told = []
        ranks = [RankStatus(ONE, MACHINE, 1), RankStatus(TWO, MACHINE, 2)]
        self.roster = Roster(ranks, timeout, limit, self.told.append)
        self.roster.receive(heartbeat(ONE, 1))
        self.roster.receive(heartbeat(TWO, 2, [4]))
        self.one, self.two = ranks

    def lost_after(self, seconds, step=1.0):
        """Return the ranks that are lost while only the second process sends heartbeats."""
        lost = []
        for _ in range(int(seconds / step)):
            self.roster.receive(heartbeat(TWO, 2, [4]))
            lost += self.roster.advance(step)
        return lost


def test_a_silent_rank_is_reported_once_as_delayed_and_then_lost():
    both = Two()
    assert both.lost_after(15) == [] and both.one.contact == ON_TIME and not both.told
    assert both.lost_after(5) == [] and both.one.contact == DELAYED and both.two.contact == ON_TIME
    assert both.told == ["rank 1 on a (process 11) has sent no heartbeat for 16 s and is delayed"]
    assert both.one.describe()["silent"] == 20 and both.one.describe()["remark"] == both.told[0]
    assert both.lost_after(100) == [], "the limit itself is not beyond it"
    assert both.lost_after(10) == [both.one] and both.one.contact == LOST, "once"


def test_the_speed_of_a_rank_is_known_if_its_heartbeat_tells_it():
    both = Two()
    assert both.one.describe()["speed"] is None
    both.roster.receive({**heartbeat(ONE), "speed": 2.5})
    assert both.one.describe()["speed"] == 2.5
    assert both.roster.receive({**heartbeat(ONE), "speed": "fast"}) is None, "invalid"
    both.roster.receive(heartbeat(ONE))
    assert both.one.describe()["speed"] is None, "the members have moved"


def test_a_rank_that_sends_heartbeats_again_is_no_longer_delayed():
    both = Two()
    both.lost_after(16)
    both.roster.receive(heartbeat(ONE, 1, t=5))
    assert both.told[1] == "rank 1 on a (process 11) sends heartbeats again, after 16 s"
    assert (both.one.contact, both.one.silent) == (ON_TIME, 0)
    assert (both.one.remark, both.one.round) == ("", 5)
    assert both.lost_after(119) == []


def test_without_a_limit_no_rank_is_lost():
    both = Two(limit=0)
    assert both.lost_after(10_000, step=100) == [] and both.one.contact == DELAYED


def test_a_rank_that_never_sent_a_heartbeat_is_reported_but_not_killed():
    """It may train nevertheless, behind a firewall between the hosts."""
    told = []
    roster = Roster([RankStatus(ONE, MACHINE, 1)], 15, 120, told.append)
    assert not any(roster.advance(10) for _ in range(100))
    assert len(told) == 1 and "cannot reach the host of rank 0 by TCP" in told[0]


def test_ranks_are_renumbered_and_take_over_members():
    both = Two()
    both.roster.disconnect(both.one)
    assert both.one.contact == GONE
    both.roster.receive(heartbeat(TWO, rank=1, members=[2, 3, 4]))
    assert (both.two.rank, both.two.members, both.two.contact) == (1, [2, 3, 4], ON_TIME)
    assert both.lost_after(1000, step=10) == [], "a disconnected rank may be dead already"


def test_a_rank_that_mpi_reports_as_lost_stays_lost():
    """Its host may return, but the run continues without it."""
    both = Two()
    both.roster.lose(ONE)
    assert both.one.contact == LOST
    assert both.roster.receive(heartbeat(ONE, t=9)) is None and both.one.round == 4
    assert both.lost_after(200) == [] and both.one.contact == LOST, "nobody kills it"
    both.roster.disconnect(both.one)
    assert both.one.contact == LOST and not both.told
    both.roster.lose(Process("c", 1, 1))  # lost before its first heartbeat


def test_a_finished_rank_may_be_silent():
    both = Two()
    assert not both.roster.is_over
    both.roster.receive(heartbeat(ONE, state="finished"))
    both.roster.disconnect(both.one)
    assert both.lost_after(200) == [] and both.one.contact == ON_TIME and not both.told
    both.roster.receive(heartbeat(TWO, state="finished"))
    assert both.roster.is_over


@pytest.mark.parametrize(
    "changes",
    [
        {"process": ["a", 12, 5]},  # unknown, such as a new process with the number of a dead rank
        {"process": "a"},
        {"process": [[], {}, 1]},
        {"rank": None},
        {"members": 7},
        {"state": "dancing"},
        {"round": "x"},
    ],
)
def test_invalid_heartbeats_are_ignored(changes):
    both = Two()
    before = both.one.describe()
    assert both.roster.receive({**heartbeat(ONE, 9), **changes}) is None
    assert both.roster.receive({}) is None
    assert both.one.describe() == before
