"""Kill runs at random moments, resume them, and compare them to the bit with one never stopped."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

import remuda as library
from remuda import config
from remuda.errors import Interrupted
from remuda.record import Record
from tests.training.test_run import assert_same_run

VALUES = {
    "data": {"name": "digits"},
    "networks": {"name": "dcgan", "width": 8, "latent": 8},
    "strategy": {"name": "class-parallel", "batch_size": 4, "steps_per_round": 2},
    "engine": {"device": "cpu"},
    "run": {"rounds": 60, "members": 3, "checkpoint_every": 3, "sample_every": 7},
}


def remuda(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "remuda", *map(str, words)], stdout=subprocess.DEVNULL
    )


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kill")
    (folder / "small.toml").write_text(config.to_toml(config.from_dict(VALUES)))
    began = time.monotonic()
    assert remuda("train", folder / "small.toml", "--out", folder / "whole").wait(300) == 0
    return folder, time.monotonic() - began


def killed_and_resumed(never_stopped, name, seed, how=signal.SIGKILL):
    """Kill a run up to three times, resume it after each time, then let it end."""
    folder, duration = never_stopped
    draw = random.Random(seed)
    command = ["train", folder / "small.toml", "--out", folder / name]
    for _ in range(draw.randint(1, 3)):
        process = remuda(*command)
        try:
            process.wait(draw.uniform(0.2, 1.0) * duration)
        except subprocess.TimeoutExpired:
            process.send_signal(how)
            process.wait(60)
        if (folder / name / "config.toml").exists():
            command = ["resume", folder / name]
    assert remuda(*command).wait(300) == 0
    assert_same_run(folder / "whole", folder / name)


def test_kill_and_resume_is_exact(never_stopped):
    killed_and_resumed(never_stopped, "trial", seed=0)  # two kills


@pytest.mark.soak
@pytest.mark.parametrize("trial", range(100, 120))
def test_kill_and_resume_is_exact_again_and_again(never_stopped, trial):
    killed_and_resumed(never_stopped, f"trial-{trial}", seed=trial)


def trained_in_a_child(folder, seconds=None, how=signal.SIGKILL, rounds=40):
    """Train or resume a run in a forked process, which starts quickly; kill it after some time.

    Return the status: 0 if the run is complete, 130 if it was interrupted, -how if it was killed.
    """
    values = {**VALUES, "run": {**VALUES["run"], "rounds": rounds, "checkpoint_every": 1}}
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if (folder / "config.toml").exists():
                library.resume(folder)
            else:
                library.run(config.from_dict(values), folder)
            status = 0
        except Interrupted as error:
            status = error.status
        finally:
            os._exit(status)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, how)
    end = time.monotonic() + 100
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(found[1])


@pytest.mark.soak
def test_a_run_that_is_killed_twenty_times_is_exact(tmp_path):
    """Every round is saved, so that many kills come while a checkpoint is written."""
    began, draw = time.monotonic(), random.Random(0)
    assert trained_in_a_child(tmp_path / "whole") == 0
    duration, num_writing = time.monotonic() - began, 0
    for trial in range(20):
        run = tmp_path / f"trial-{trial}"
        trained_in_a_child(run, draw.uniform(0.1, 0.9) * duration)
        num_writing += any((run / "checkpoints").glob("*/.shard-*"))
        assert trained_in_a_child(run) == 0
        assert_same_run(tmp_path / "whole", run)
    assert num_writing > 0, "no kill came while a checkpoint was written"


@pytest.mark.parametrize("trials", [2, pytest.param(200, marks=pytest.mark.soak)])
def test_a_stop_signal_may_come_at_any_moment(tmp_path, trials):
    """The run saves its last round and ends. A signal after the last round ends the process."""
    began, draw = time.monotonic(), random.Random(trials)
    assert trained_in_a_child(tmp_path / "whole", rounds=20) == 0
    duration, ends = time.monotonic() - began, []
    for trial in range(trials):
        run = tmp_path / f"trial-{trial}"
        seconds = draw.uniform(0.0, 1.0) * duration
        if trial == 0:
            seconds = 0.3 * duration  # certainly before the end
        ends.append(trained_in_a_child(run, seconds, signal.SIGTERM, rounds=20))
        if ends[-1] == 130 and (run / "config.toml").exists():
            record = Record.open(run)
            saved, rounds = record.newest()[0], record.rounds()
            assert (saved.round if saved else 0) == (rounds[-1]["round"] if rounds else 0)
        assert trained_in_a_child(run, rounds=20) == 0
        assert_same_run(tmp_path / "whole", run)
    assert set(ends) <= {130, 0, -signal.SIGTERM} and ends[0] == 130, ends


@pytest.mark.parametrize(
    "how",
    [
        pytest.param([signal.SIGINT], marks=pytest.mark.soak),
        [signal.SIGTERM],
        [signal.SIGINT, signal.SIGINT, signal.SIGTERM],
    ],
)
def test_a_stop_signal_saves_and_tells_how_to_resume(never_stopped, how):
    """Several signals are no problem: a time limit may signal a process and then its group."""
    folder, _ = never_stopped
    name = folder / "-".join(one.name for one in how)
    command = ["train", str(folder / "small.toml"), "--out", str(name)]
    process = subprocess.Popen(
        [sys.executable, "-m", "remuda", *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (name / "rounds.jsonl").exists() or len(Record.open(name).rounds()) < 4:
        time.sleep(0.02)
    for one in how:
        process.send_signal(one)
        time.sleep(0.01)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors and f"remuda resume {name}" in errors
    record = Record.open(name)
    saved, _ = record.newest()
    assert saved.round >= 4
    assert saved.round == record.rounds()[-1]["round"], "no whole round is lost"
    assert remuda("resume", name).wait(300) == 0
    assert_same_run(folder / "whole", name)
