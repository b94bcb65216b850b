"""Test the heartbeats between processes, over real sockets."""

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

from remuda.cluster.coordinator import Coordinator, make_heartbeat
from remuda.cluster.heartbeats import HeartbeatSender, encode
from remuda.cluster.roster import GONE, LOST, RankStatus, Roster
from remuda.config import EngineConfig
from remuda.engines import SingleProcess
from remuda.errors import UserError
from remuda.recipes import recipe
from remuda.system.processes import Process, birth, this_process
from tests.cluster.test_roster import MACHINE, ONE, heartbeat

HERE = platform.node()


# Processes


def test_a_process_is_distinguished_from_others_with_its_number():
    own = this_process(HERE)
    assert own.is_alive and own.born == birth(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    born = birth(child.pid)
    assert not own._replace(pid=child.pid, born=-1).kill(), "another process"
    assert child.poll() is None
    assert own._replace(pid=child.pid, born=born).kill()
    until(lambda: birth(child.pid) is None)  # also before its exit status is read
    assert child.wait() == -9 and not own._replace(pid=child.pid, born=born).kill()


# Sockets


def until(is_so, seconds=10.0):
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def ranks_of(*processes):
    """Return rank 0 in this process, and other processes as the next ranks."""
    return [
        RankStatus(process, MACHINE, rank)
        for rank, process in enumerate((this_process(HERE), *processes))
    ]


@pytest.fixture
def start(tmp_path):
    """Start coordinators of some processes, with a heartbeat every quarter of a second."""
    started = []

    def begin(*processes, limit=0.0, path=tmp_path / "status.json"):
        config, told = EngineConfig(heartbeat_timeout=1.0, heartbeat_limit=limit), []
        ranks = ranks_of(*processes)
        coordinator = Coordinator(path, 9, range(2), config, ranks, told.append).__enter__()
        started.append(coordinator)
        return coordinator, told

    yield begin
    for coordinator in started:
        coordinator.__exit__(None, None, None)
    assert not any(thread.name == "heartbeats" for thread in threading.enumerate())


def send(coordinator, text):
    connection = socket.create_connection(coordinator.address, 5)
    connection.sendall(text)
    return connection


def test_heartbeats_without_the_token_are_refused(start):
    coordinator, _ = start(ONE)
    with send(coordinator, encode("wrong", **heartbeat(ONE))) as connection:
        assert connection.recv(1) == b"", "refused"
    lines = (
        b'nonsense\n[1]\n{"half": \n'
        + encode(coordinator.token, nothing=1)
        + encode(coordinator.token, **heartbeat(ONE))
    )
    with send(coordinator, lines):
        until(lambda: coordinator.roster.ranks[ONE].state == "processing")
    until(lambda: coordinator.roster.ranks[ONE].contact == GONE)
    with send(coordinator, b"x" * (3 << 20)) as connection, pytest.raises(OSError):
        while True:  # the connection is closed if a line does not end
            connection.sendall(b"x" * (1 << 20))


def test_heartbeats_report_what_the_loop_does(start, tmp_path):
    process = this_process(HERE)._replace(born=1)  # rank 0 takes it for another one
    coordinator, told = start(process)
    address, token = coordinator.address, coordinator.token
    measure = lambda: 5 << 20  # noqa: E731
    with HeartbeatSender(1, range(2, 4), 0.1, address, token, process, [], measure) as sender:
        seen = coordinator.roster.ranks[process]
        until(lambda: seen.members == [2, 3])
        assert seen.state == "inactive"
        sender.start_round(7, [1])
        coordinator.start_round(7, range(2))
        until(
            lambda: (seen.state, seen.round, seen.rank, seen.members) == ("processing", 7, 1, [1])
        )
        until(lambda: json.loads((tmp_path / "status.json").read_text())["ranks"][1]["round"] == 7)
    until(lambda: seen.state == "finished")
    coordinator.__exit__(None, None, None)
    status = json.loads((tmp_path / "status.json").read_text())
    assert (status["state"], status["why"], status["rounds"]) == ("finished", "", 9)
    assert [rank["state"] for rank in status["ranks"]] == ["finished", "finished"]
    assert [rank["used"] for rank in status["ranks"]] == [None, 5 << 20]
    assert (
        status["ranks"][0]["pid"] == os.getpid() and status["ranks"][1]["cores"] == 2 and not told
    )


def test_the_neighbour_of_a_silent_rank_is_asked_to_kill_it(start):
    """Both are on another host than rank 0; the neighbour obeys only within this run."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    silent = Process("far", child.pid, birth(child.pid))
    near = Process("far", os.getpid(), birth(os.getpid()))
    coordinator, told = start(silent, near, limit=2.0)
    address, token = coordinator.address, coordinator.token
    neighbour = HeartbeatSender(2, [4], 0.1, address, token, near, [silent, near])
    with send(coordinator, encode(token, **heartbeat(silent))), neighbour:
        assert child.wait(20) == -9
    assert [text.partition(" (")[0] for text in told] == ["rank 1 on far", "rank 1 on far"]
    assert told[0].endswith("is delayed") and told[1].endswith("counts as lost; rank 2 kills it")


def test_without_a_neighbour_the_user_is_asked_to_kill_a_silent_rank(start, tmp_path):
    coordinator, told = start(ONE, limit=1.5)
    with send(coordinator, encode(coordinator.token, **heartbeat(ONE))):
        until(lambda: len(told) == 2)
        assert told[1].endswith(
            "counts as lost, but no other rank on a can kill it: run `kill -9 11` on a"
        )
        until(lambda: told[1] in (tmp_path / "status.json").read_text())


def test_a_coordinator_that_was_suspended_blames_no_rank(start, monkeypatch):
    """A whole job may be suspended and continue an hour later."""
    later = [0.0]
    monkeypatch.setattr(
        "remuda.cluster.coordinator.time",
        SimpleNamespace(monotonic=lambda: time.monotonic() + later[0]),
    )
    coordinator, _ = start(ONE, limit=60.0)
    with send(coordinator, encode(coordinator.token, **heartbeat(ONE))):
        until(lambda: coordinator.roster.ranks[ONE].is_connected)
        later[0] = 3600.0
        time.sleep(0.6)
        status = coordinator.roster.ranks[ONE]
        assert 0 < status.silent < 30 and status.contact != LOST


def test_problems_of_the_thread_are_reported_and_training_continues(start, tmp_path, monkeypatch):
    coordinator, told = start(path=tmp_path / "missing" / "status.json")
    until(lambda: told)
    time.sleep(0.6)
    path = tmp_path / "missing" / "status.json"
    assert told == [f"cannot write {path} (No such file or directory); training continues"]
    monkeypatch.setattr(Roster, "advance", lambda *_: 1 / 0)
    coordinator, told = start()
    until(lambda: told)
    assert told == [
        "heartbeats stopped (ZeroDivisionError('division by zero')); training continues"
    ]
    coordinator.__exit__(None, None, None)
    assert json.loads((tmp_path / "status.json").read_text())["state"] == "finished"


def test_an_error_leaves_open_connections_without_a_message(start, caplog):
    coordinator, told = start(ONE)
    with send(coordinator, encode(coordinator.token, **heartbeat(ONE))):
        until(lambda: coordinator.roster.ranks[ONE].is_connected)
        coordinator.__exit__(UserError, UserError("lower the learning rates"), None)
    assert not told and not caplog.records


def test_a_run_that_continues_elsewhere_is_left_alone(tmp_path):
    config, device, told = recipe("standalone-digits"), torch.device("cpu"), []
    world = SingleProcess()
    with make_heartbeat(tmp_path, config, world, device, range(3), told.append, lambda: False):
        time.sleep(0.1)
    assert not (tmp_path / "status.json").exists() and not told


def test_a_single_process_writes_its_status_and_why_it_stopped(tmp_path):
    config, device = recipe("standalone-digits", "run.rounds=9"), torch.device("cpu")
    with (
        pytest.raises(UserError),
        make_heartbeat(tmp_path, config, SingleProcess(), device, range(3), print) as own,
    ):
        own.start_round(4, range(3))
        until(lambda: (tmp_path / "status.json").exists())
        assert json.loads((tmp_path / "status.json").read_text())["state"] == "running"
        raise UserError("lower the learning rates")
    status = json.loads((tmp_path / "status.json").read_text())
    assert (status["state"], status["why"]) == ("stopped", "lower the learning rates")
    (own,) = status["ranks"]
    assert 10 << 20 < own["used"] < own["memory"]
    assert (own["state"], own["round"], own["members"], own["device"]) == (
        "processing",
        4,
        [0, 1, 2],
        "cpu",
    )
    assert own["memory"] > 1 << 28 and own["cores"] >= 1 and own["host"] == HERE
