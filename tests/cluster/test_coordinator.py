"""Heartbeats: who is delayed, lost or gone, over real sockets and by a clock that the tests move."""

import json
import os
import platform
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
import torch

from remuda.cluster.coordinator import DELAYED, GONE, LOST, ON_TIME, Census, Seen, Watch, pulse_of
from remuda.cluster.heartbeats import Beats, message
from remuda.config import EngineConfig
from remuda.engines import World
from remuda.errors import UserError
from remuda.recipes import recipe
from remuda.system.processes import Process, birth, this_process

HERE = platform.node()
ONE, TWO = Process("a", 11, 5), Process("b", 11, 6)  # the same number on two hosts
MACHINE = {"cores": 2, "memory": 8 << 30, "device": "cpu"}


def beat(process, rank=1, members=(2, 3), state="processing", t=4):
    return {
        "process": list(process),
        "rank": rank,
        "members": list(members),
        "state": state,
        "round": t,
    }


class Two:
    """A census of two processes, both heard once."""

    def __init__(self, timeout=15, limit=120):
        self.told = []
        self.census = Census(
            [Seen(ONE, MACHINE, 1), Seen(TWO, MACHINE, 2)], timeout, limit, self.told.append
        )
        self.one, self.two = self.census.hear(beat(ONE, 1)), self.census.hear(beat(TWO, 2, [4]))

    def lost_after(self, seconds, step=1.0):
        lost = []
        for _ in range(int(seconds / step)):
            self.census.hear(beat(TWO, 2, [4]))
            lost += self.census.tick(step)
        return lost


def test_a_silent_rank_is_delayed_and_named_once_then_lost():
    both = Two()
    assert both.lost_after(15) == [] and both.one.contact == ON_TIME and not both.told
    assert both.lost_after(5) == [] and both.one.contact == DELAYED and both.two.contact == ON_TIME
    assert both.told == ["rank 1 on a (process 11) has not been heard for 16 s and is delayed"]
    assert both.one.describe()["silent"] == 20 and both.one.describe()["remark"] == both.told[0]
    assert both.lost_after(100) == [], "the limit itself is not beyond it"
    assert both.lost_after(10) == [both.one] and both.one.contact == LOST, "once"


def test_who_speaks_again_is_no_longer_delayed():
    both = Two()
    both.lost_after(16)
    both.census.hear(beat(ONE, 1, t=5))
    assert both.told[1] == "rank 1 on a (process 11) is heard again, after 16 s"
    assert (both.one.contact, both.one.silent, both.one.remark, both.one.round) == (
        ON_TIME,
        0,
        "",
        5,
    )
    assert both.lost_after(119) == []


def test_without_a_limit_nobody_is_lost():
    both = Two(limit=0)
    assert both.lost_after(10_000, step=100) == [] and both.one.contact == DELAYED


def test_who_was_never_heard_is_named_but_not_killed():
    """It may train all the same, behind a wall between the hosts."""
    told = []
    census = Census([Seen(ONE, MACHINE, 1)], 15, 120, told.append)
    assert not any(census.tick(10) for _ in range(100))
    assert len(told) == 1 and "cannot reach that of rank 0 by TCP" in told[0]


def test_ranks_are_renumbered_and_take_members_over():
    both = Two()
    both.census.close(both.one)
    assert both.one.contact == GONE
    both.census.hear(beat(TWO, rank=1, members=[2, 3, 4]))
    assert (both.two.rank, both.two.members, both.two.contact) == (1, [2, 3, 4], ON_TIME)
    assert both.lost_after(1000, step=10) == [], "whose connection has ended may be dead already"


def test_who_has_finished_may_be_silent():
    both = Two()
    assert not both.census.is_over
    both.census.hear(beat(ONE, state="finished"))
    both.census.close(both.one)
    assert both.lost_after(200) == [] and both.one.contact == ON_TIME and not both.told
    both.census.hear(beat(TWO, state="finished"))
    assert both.census.is_over


@pytest.mark.parametrize(
    "changes",
    [
        {"process": ["a", 12, 5]},  # unknown, as one that has the number of a dead rank would be
        {"process": "a"},
        {"process": [[], {}, 1]},
        {"rank": None},
        {"members": 7},
        {"state": "dancing"},
        {"round": "x"},
    ],
)
def test_what_makes_no_sense_is_ignored(changes):
    both = Two()
    before = both.one.describe()
    assert both.census.hear({**beat(ONE, 9), **changes}) is None and both.census.hear({}) is None
    assert both.one.describe() == before


# Processes


def test_a_process_is_told_from_others_with_its_number():
    own = this_process(HERE)
    assert own.is_alive and own.born == birth(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    born = birth(child.pid)
    assert not own._replace(pid=child.pid, born=-1).kill(), "another process"
    assert child.poll() is None
    assert own._replace(pid=child.pid, born=born).kill()
    until(lambda: birth(child.pid) is None)  # also before anybody has asked how it ended
    assert child.wait() == -9 and not own._replace(pid=child.pid, born=born).kill()


# Sockets


def until(is_so, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def hosts_of(*processes):
    """Rank 0 in this process, and others."""
    return [
        Seen(process, MACHINE, rank)
        for rank, process in enumerate((this_process(HERE), *processes))
    ]


@pytest.fixture
def start(tmp_path):
    """A watch over some processes, with beats every quarter of a second, and what it tells."""
    begun = []

    def begin(*processes, limit=0.0, path=tmp_path / "status.json"):
        config, told = EngineConfig(heartbeat_timeout=1.0, heartbeat_limit=limit), []
        watch = Watch(path, 9, range(2), config, hosts_of(*processes), told.append).__enter__()
        begun.append(watch)
        return watch, told

    yield begin
    for watch in begun:
        watch.__exit__(None, None, None)
    assert not any(thread.name == "heartbeats" for thread in threading.enumerate())


def speak(watch, text):
    connection = socket.create_connection((watch.address[0], watch.address[1]), 5)
    connection.sendall(text)
    return connection


def test_only_who_knows_the_token_is_heard(start):
    watch, _ = start(ONE)
    with speak(watch, message("wrong", **beat(ONE))) as connection:
        assert connection.recv(1) == b"", "refused"
    lines = (
        b'nonsense\n[1]\n{"half": \n'
        + message(watch.token, nothing=1)
        + message(watch.token, **beat(ONE))
    )
    with speak(watch, lines):
        until(lambda: watch.census.seen[ONE].state == "processing")
    until(lambda: watch.census.seen[ONE].contact == GONE)
    with speak(watch, b"x" * (3 << 20)) as connection, pytest.raises(OSError):
        while True:  # a line without end is cut off
            connection.sendall(b"x" * (1 << 20))


def test_beats_tell_what_the_loop_says(start, tmp_path):
    process = this_process(HERE)._replace(born=1)  # another one, as far as rank 0 knows
    watch, told = start(process)
    with Beats(1, range(2, 4), 0.1, watch.address, watch.token, process, []) as beats:
        seen = watch.census.seen[process]
        until(lambda: seen.members == [2, 3])
        assert seen.state == "inactive"
        beats.at(7, 3, [1])
        watch.at(7, 0, range(2))
        until(
            lambda: (seen.state, seen.round, seen.rank, seen.members) == ("processing", 7, 3, [1])
        )
        until(lambda: json.loads((tmp_path / "status.json").read_text())["ranks"][1]["round"] == 7)
    until(lambda: seen.state == "finished")
    watch.__exit__(None, None, None)
    status = json.loads((tmp_path / "status.json").read_text())
    assert (status["state"], status["why"], status["rounds"]) == ("finished", "", 9)
    assert [rank["state"] for rank in status["ranks"]] == ["finished", "finished"]
    assert (
        status["ranks"][0]["pid"] == os.getpid() and status["ranks"][1]["cores"] == 2 and not told
    )


def test_the_neighbour_of_a_silent_rank_is_asked_to_kill_it(start):
    """Both are on a host of their own; the neighbour obeys if it is a rank of this run."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    silent, near = (
        Process("far", child.pid, birth(child.pid)),
        Process("far", os.getpid(), birth(os.getpid())),
    )
    watch, told = start(silent, near, limit=2.0)
    neighbour = Beats(2, [4], 0.1, watch.address, watch.token, near, [silent, near])
    with speak(watch, message(watch.token, **beat(silent))), neighbour:
        assert child.wait(20) == -9
    assert [text.partition(" (")[0] for text in told] == ["rank 1 on far", "rank 1 on far"]
    assert told[0].endswith("is delayed") and told[1].endswith("counts as lost; rank 2 kills it")


def test_where_no_neighbour_is_the_user_is_asked(start, tmp_path):
    watch, told = start(ONE, limit=1.5)
    with speak(watch, message(watch.token, **beat(ONE))):
        until(lambda: len(told) == 2)
        assert told[1].endswith("counts as lost, but no other rank is on a: kill the process there")
        until(lambda: told[1] in (tmp_path / "status.json").read_text())


def test_who_was_held_up_itself_blames_nobody(start, monkeypatch):
    """As when a whole job is suspended, and goes on an hour later."""
    later = [0.0]
    monkeypatch.setattr(
        "remuda.cluster.coordinator.time",
        SimpleNamespace(monotonic=lambda: time.monotonic() + later[0]),
    )
    watch, _ = start(ONE, limit=60.0)
    with speak(watch, message(watch.token, **beat(ONE))):
        until(lambda: watch.census.seen[ONE].is_open)
        later[0] = 3600.0
        time.sleep(0.6)
        assert 0 < watch.census.seen[ONE].silent < 30 and watch.census.seen[ONE].contact != LOST


def test_trouble_of_the_thread_is_told_and_nothing_else(start, tmp_path, monkeypatch):
    watch, told = start(path=tmp_path / "missing" / "status.json")
    until(lambda: told)
    time.sleep(0.6)
    assert len(told) == 1 and told[0].endswith(
        "could not be written (No such file or directory); training goes on"
    )
    monkeypatch.setattr(Census, "tick", lambda *_: 1 / 0)
    watch, told = start()
    until(lambda: told)
    assert told == [
        "heartbeats have ended (ZeroDivisionError('division by zero')); training goes on"
    ]
    watch.__exit__(None, None, None)
    assert json.loads((tmp_path / "status.json").read_text())["state"] == "finished"


def test_an_end_by_an_error_leaves_open_connections_without_a_word(start, caplog):
    watch, told = start(ONE)
    with speak(watch, message(watch.token, **beat(ONE))):
        until(lambda: watch.census.seen[ONE].is_open)
        watch.__exit__(UserError, UserError("lower the learning rates"), None)
    assert not told and not caplog.records


def test_alone(tmp_path):
    """Without ranks there is nobody to hear, and a file all the same; why it ended is in it."""
    config, device = recipe("standalone-digits", "run.rounds=9"), torch.device("cpu")
    with (
        pytest.raises(UserError),
        pulse_of(tmp_path, config, World(), device, range(3), print) as pulse,
    ):
        pulse.at(4, 0, range(3))
        until(lambda: (tmp_path / "status.json").exists())
        assert json.loads((tmp_path / "status.json").read_text())["state"] == "running"
        raise UserError("lower the learning rates")
    status = json.loads((tmp_path / "status.json").read_text())
    assert (status["state"], status["why"]) == ("stopped", "lower the learning rates")
    (own,) = status["ranks"]
    assert (own["state"], own["round"], own["members"], own["device"]) == (
        "processing",
        4,
        [0, 1, 2],
        "cpu",
    )
    assert own["memory"] > 1 << 28 and own["cores"] >= 1 and own["host"] == HERE
