"""Test the heartbeats of real ranks: their recorded states, and the end of a stopped rank."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from remuda import config
from remuda.record import Record
from remuda.system.processes import birth
from tests.mpi.starting import ENVIRONMENT, remuda
from tests.mpi.test_training import VALUES, processes_of


class Started:
    """A run on three ranks."""

    def __init__(self, folder, *settings):
        (folder / "small.toml").write_text(config.to_toml(config.from_dict(VALUES)))
        self.run = folder / "run"
        words = ["train", folder / "small.toml", "--out", self.run, "--engine", "mpi"]
        words += ["--ranks", 3, *settings]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "remuda", *map(str, words)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
        )  # fmt: skip

    def status(self):
        try:
            return json.loads((self.run / "status.json").read_text())
        except FileNotFoundError:
            return {"ranks": []}

    def reached(self):
        return max((line["round"] for line in Record.open(self.run).rounds()), default=0)

    def until(self, is_so, seconds=60.0, may_end=False):
        """Wait until a condition holds for the status, and return the status."""
        deadline = time.monotonic() + seconds
        while not is_so(status := self.status()):
            assert may_end or self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline, status
            time.sleep(0.02)
        return status


@pytest.fixture
def start(tmp_path):
    begun = []

    def begin(*settings):
        begun.append(Started(tmp_path, *settings))
        return begun[-1]

    yield begin
    for started in begun:
        if started.process.poll() is None:
            started.process.kill()
            started.process.communicate()


def are_processing(status):
    return len(status["ranks"]) == 3 and all(
        rank["state"] == "processing" for rank in status["ranks"]
    )


def test_ranks_process_and_finish(start):
    # A short time-out means more frequent heartbeats. On a busy machine, members would move.
    settings = ["engine.heartbeat_timeout=1", "engine.balance=false"]
    started = start("--rounds", 30, *(word for each in settings for word in ("--set", each)))
    ranks = started.until(are_processing)["ranks"]
    assert [rank["rank"] for rank in ranks] == [0, 1, 2]
    assert [rank["members"] for rank in ranks] == [[0, 1], [2, 3], [4]]
    assert len({rank["pid"] for rank in ranks}) == 3
    _, errors = started.process.communicate(timeout=100)
    assert started.process.returncode == 0, errors
    status = started.status()
    assert status["state"] == "finished"
    assert {rank["state"] for rank in status["ranks"]} == {"finished"}
    assert {rank["round"] for rank in status["ranks"]} == {30}
    shown = remuda("status", started.run).stdout
    assert "finished, round 30 of 30" in shown and shown.count(" finished ") == 3


def test_a_stopped_rank_is_reported_as_delayed_and_then_killed(start):
    settings = ["engine.heartbeat_timeout=1", "engine.heartbeat_limit=4"]
    flags = [word for setting in settings for word in ("--set", setting)]
    started = start("--rounds", 100_000, *flags)
    status = started.until(lambda status: are_processing(status) and started.reached() >= 2)
    victim = status["ranks"][2]
    assert birth(victim["pid"]) == victim["born"]

    def contact(status):
        return next(rank["contact"] for rank in status["ranks"] if rank["pid"] == victim["pid"])

    os.kill(victim["pid"], signal.SIGSTOP)
    started.until(lambda status: contact(status) == "delayed")
    assert birth(victim["pid"]) == victim["born"]
    status = started.until(lambda status: contact(status) == "lost", may_end=True)
    deadline = time.monotonic() + 10
    while birth(victim["pid"]) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.02)

    check_that_it_continues(started)
    words, errors = started.process.communicate(timeout=60)
    assert started.process.returncode not in (0, 1) and "Traceback" not in errors, errors
    name = f"rank 2 on {victim['host']} (process {victim['pid']})"
    for text in (
        "has sent no heartbeat for [12] s and is delayed",
        "has sent no heartbeat for [45] s and counts as lost; it was killed",
    ):
        assert re.search(f"{re.escape(name)} {text}", words), words
    assert name in next(rank["remark"] for rank in status["ranks"] if rank["pid"] == victim["pid"])
    assert not processes_of(started.run), "no rank is left behind"


def check_that_it_continues(started):
    """Check that two ranks continue without the lost one, until the user stops them."""
    reached = started.reached()
    started.until(lambda _: started.reached() > reached + 3)
    members = [
        rank["members"] for rank in started.status()["ranks"] if rank["contact"] == "on time"
    ]
    assert len(members) == 2 and all(members)
    started.process.send_signal(signal.SIGINT)
    started.process.wait(60)
    assert started.process.returncode == 130
    assert started.status()["state"] == "stopped", started.process.communicate()
