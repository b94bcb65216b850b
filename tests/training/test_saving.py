"""Saving in the background: training continues, errors arrive, and nothing is lost."""

import os
import subprocess
import sys
import threading
import time

import pytest
import torch

import remuda
from remuda import config
from remuda.errors import Interrupted, UserError
from remuda.record import Record, checkpoints, shards
from remuda.training.assemble import assemble
from remuda.training.pace import Pace
from remuda.training.progress import Progress
from remuda.training.state import Phase
from tests.training.driving import Driver
from tests.training.test_run import StopAfter, assert_same_run, final_tensors, make


class Gate:
    """Let writes wait until the gate opens; count them."""

    def __init__(self, monkeypatch):
        self.event, self.rounds = threading.Event(), []
        write = checkpoints.write

        def waiting(folder, shard, *more):
            self.rounds.append(shard.round)
            assert self.event.wait(60)
            write(folder, shard, *more)

        monkeypatch.setattr(checkpoints, "write", waiting)


@pytest.fixture
def gate(monkeypatch):
    gate = Gate(monkeypatch)
    yield gate
    gate.event.set()


@pytest.fixture
def start(tiny, tmp_path):
    drivers = []

    def make_driver(**run):
        values = {**tiny, "run": {**tiny["run"], "sample_every": 99, **run}}
        drivers.append(Driver(values, tmp_path / "run"))
        return drivers[-1]

    yield make_driver
    for driver in drivers:
        driver.close()


def test_training_continues_while_a_checkpoint_is_written(start, gate):
    driver = start(rounds=9, checkpoint_every=3)
    driver.run_until(Phase.KEEP, after=5)
    assert gate.rounds == [3] and Record.open(driver.training.folder).newest()[0] is None
    gate.event.set()
    driver.run()
    assert gate.rounds == [3, 6, 9]
    saved = Record.open(driver.training.folder).checkpoints()
    assert [checkpoint.round for checkpoint in saved] == [3, 6, 9]


def test_a_checkpoint_due_by_time_is_postponed_while_one_is_written(start, gate, monkeypatch):
    monkeypatch.setattr(Pace, "is_due", lambda *_: True)
    driver = start(rounds=9, checkpoint_every=0)
    driver.run_until(Phase.KEEP, after=6)
    assert gate.rounds == [1]
    gate.event.set()
    driver.training.saver.wait()
    driver.run()
    assert gate.rounds[:2] == [1, 7] and gate.rounds[-1] == 9


def test_a_checkpoint_due_by_rounds_waits_for_the_one_before(start, gate):
    driver = start(rounds=9, checkpoint_every=2)
    driver.run_until(Phase.KEEP, after=4)
    timer = threading.Timer(0.3, gate.event.set)
    timer.start()
    began = time.monotonic()
    driver.advance()
    assert time.monotonic() - began > 0.2 and driver.training.phase is Phase.COMPUTE
    driver.run()
    assert gate.rounds == [2, 4, 6, 8, 9]


def test_a_checkpoint_is_a_snapshot_of_its_round(start, gate):
    """Later rounds do not change what is being written."""
    driver = start(rounds=9, checkpoint_every=2)
    driver.run_until(Phase.COMPUTE, after=2)
    state = driver.training.reached.state
    before = state.generator.params["layers.0.weight"].clone()
    driver.run_until(Phase.KEEP, after=3)
    gate.event.set()
    driver.training.saver.wait()
    checkpoint = Record.open(driver.training.folder).checkpoint(2)
    restored = driver.training.herd.restore(checkpoint)
    assert torch.equal(restored.generator.params["layers.0.weight"], before)


def test_ctrl_c_during_a_write_waits_for_it_and_saves(tiny, tmp_path, monkeypatch):
    written, write = [], checkpoints.write

    def slow(folder, shard, *more):
        time.sleep(0.3)
        write(folder, shard, *more)
        written.append(shard.round)

    monkeypatch.setattr(checkpoints, "write", slow)
    run = make(tiny, rounds=40, checkpoint_every=2)
    with pytest.raises(Interrupted, match="stopped after round 3"):
        remuda.run(run, tmp_path / "run", StopAfter(3))
    assert written == [2, 3], "round 2 was being written, and round 3 is not lost"
    monkeypatch.undo()
    remuda.resume(tmp_path / "run", rounds=5)
    assert_same_run(remuda.run(make(tiny, rounds=5), tmp_path / "whole"), tmp_path / "run")


def test_a_stop_right_after_a_resume_leaves_the_checkpoint_as_it_is(tiny, tmp_path):
    class StopAtTheStart(Progress):
        def start(self, *_):
            raise KeyboardInterrupt

    folder = remuda.run(make(tiny, rounds=3), tmp_path / "run")
    (path,) = Record.open(folder).newest()[0].files
    before = path.read_bytes()
    with pytest.raises((Interrupted, KeyboardInterrupt)):
        remuda.resume(folder, rounds=5, progress=StopAtTheStart())
    assert path.read_bytes() == before and Record.open(folder).newest()[0].round == 3


def test_a_resume_removes_unfinished_files_but_no_shards(tiny, tmp_path):
    folder = remuda.run(make(tiny, rounds=3), tmp_path / "run")
    place = folder / "checkpoints" / "round-000009"
    place.mkdir()
    shard = place / shards.file_name(1, 2)
    shard.write_bytes(b"the shard of a lost rank")
    (place / f".{shards.file_name(0, 2)}").write_bytes(b"half")
    remuda.resume(folder, rounds=5)
    assert [checkpoint.round for checkpoint in Record.open(folder).checkpoints()] == [3, 4, 5]
    assert list(place.iterdir()) == [shard]


# Errors while writing


def test_a_failed_write_ends_the_run_with_one_sentence(start, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    driver = start(rounds=9, checkpoint_every=1)
    driver.run_until(Phase.KEEP, after=2)
    driver.training.saver.wait()
    monkeypatch.setattr(shards, "write", fail)
    with pytest.raises(UserError) as caught:
        driver.run()
    folder, sentence = driver.training.folder, str(caught.value)
    assert sentence.startswith(f"the checkpoint of round 2 could not be written to {folder}")
    assert "No space left on device" in sentence and "earlier checkpoints are intact" in sentence
    assert driver.phases[-1] is Phase.RECORD and driver.reached in (2, 3)
    assert Record.open(folder).newest()[0].round == 1


def test_a_write_that_fails_at_the_end_is_reported(tiny, tmp_path, monkeypatch):
    def fail(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(shards, "write", fail)
    with pytest.raises(UserError, match=r"round 4 could not be written .*Permission denied"):
        remuda.run(make(tiny, checkpoint_every=0), tmp_path / "run")


@pytest.fixture
def small_disk(tmp_path):
    """Return a folder with little space; only root can make one."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("cannot mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk(tiny, small_disk):
    """The disk holds some checkpoints of about 100 KiB, but not all that are to be kept."""
    values = make(tiny, rounds=30, checkpoint_every=2, keep_checkpoints=30, sample_every=99)
    settings = small_disk / "small.toml"
    settings.write_text(config.to_toml(values))
    command = ["train", str(settings), "--out", str(small_disk / "run")]
    done = subprocess.run(
        [sys.executable, "-m", "remuda", *command], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2, done
    (sentence,) = done.stderr.strip().splitlines()
    # The checkpoint in the background fails first, or the line of a round.
    assert "could not be written" in sentence or "cannot write to" in sentence
    assert "No space left on device" in sentence
    record = Record.open(small_disk / "run")
    found, problems = record.newest()
    assert found is not None and found.round >= 2 and not problems
    assert not list((small_disk / "run" / "checkpoints").glob("*/.*"))
    assert final_tensors(small_disk / "run")


# Restoring rows


def test_the_rows_that_members_continue_with(tiny):
    tiny["strategy"]["name"], tiny["run"]["members"] = "fl-gan", 4
    herd = assemble(config.from_dict(tiny))
    assert herd.source_rows([0, 1, 2, 3]) == [0, 1, 2, 3]
    assert herd.source_rows([0, 1, 2]) == [0, 1, 2, 0], "a new member copies another one"
    lost = config.from_dict(config.override(tiny, ["run.members=3", "run.lost=[1]"]))
    after = assemble(lost)
    assert after.source_rows([0, 1, 2, 3]) == [0, 2, 3], "the others keep their rows"
    fewer = config.from_dict(config.override(tiny, ["run.members=3"]))
    assert assemble(fewer).source_rows([0, 1, 2, 3]) == [0, 1, 2], "the last members leave"
    crashing = config.override(tiny, ["run.members=3", "strategy.name=md-gan"])
    crashing["strategy"]["lose_every"] = 1
    with pytest.raises(UserError, match=r"lose_every.*leave run\.members as it was"):
        assemble(config.from_dict(crashing)).source_rows([0, 1, 2, 3])
    tiny["strategy"]["name"] = "class-parallel"  # four members
    with pytest.raises(UserError, match=r"leave run\.members as it was"):
        assemble(config.from_dict(tiny)).source_rows([0, 1, 2, 3, 4])
