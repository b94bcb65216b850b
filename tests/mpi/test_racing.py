"""Asynchronous runs on real ranks: kill, suspend and stop them, and replay the recorded order."""

import json
import os
import signal
import time
from itertools import pairwise

import pytest

import remuda as library
from remuda.record import Record
from tests.mpi.killing import RACES, Victim, assert_complete, configured
from tests.mpi.starting import remuda
from tests.training.test_run import losses

SIZE = 5  # workers of MD-GAN


def settings(**strategy):
    """Return words of a command that change settings of the strategy."""
    return [w for key, value in strategy.items() for w in ("--set", f"strategy.{key}={value}")]


def arrivals(folder, t):
    """Return members and seconds of the arrivals in round t."""
    lines = (folder / "arrivals.jsonl").read_text().splitlines()
    (line,) = [line for line in map(json.loads, lines) if line["round"] == t]
    return [arrival[0] for arrival in line["arrivals"]], line["seconds"]


def find_rank(victim, rank):
    """Return the process of a rank after the ranks have started."""
    victim.wait(lambda: victim.has_reached(0))
    return {rank: process for process, rank in victim.processes().items()}[rank]


def largest_gap(seconds):
    return max(b - a for a, b in pairwise(seconds))


def replay(run, folder, strategy):
    """Repeat the recorded order of a run on one device."""
    words = [f"engine.replay={run}", f"run.rounds={Record.open(run).config.run.rounds}"]
    steps = Record.open(run).config.strategy.steps_per_round
    library.run(configured(strategy, *words, f"strategy.steps_per_round={steps}"), folder)


def assert_same_losses(one, other):
    for a, b in zip(losses(one), losses(other), strict=True):
        for name in ("generator_loss", "discriminator_loss", "turns"):
            assert a[name] == b[name], (a["round"], name)


def test_a_lost_worker_does_not_interrupt_a_round(tmp_path):
    """The others make the rest of its turns, and do not stop meanwhile."""
    run, steps = tmp_path / "run", 150
    victim = Victim(run, "md-gan-async", "--rounds", 3, *settings(steps_per_round=steps))
    victim.wait(lambda: victim.has_reached(1))
    time.sleep(0.5)
    victim.kill(1)
    status, printed, errors = victim.end()
    assert (status, errors) == (0, ""), errors
    assert "continuing without members 2 and 3" in printed
    assert_complete(run, rounds=3)
    (failure,) = Record.open(run).failures()
    assert (failure["ranks"], failure["members"]) == ([1], [2, 3])
    members, seconds = arrivals(run, 2)
    first, second, third = Record.open(run).rounds()
    assert len(first["turns"]) == SIZE and len(third["turns"]) == 3
    num_lost = sum(member in (2, 3) for member in members)
    assert len(members) >= SIZE * steps and 0 < num_lost < 2 * steps
    assert sum(second["turns"]) + num_lost == len(members)
    assert sum(third["turns"]) >= 3 * steps
    assert largest_gap(seconds) < 1  # usually 0.05, including the time to notice the failure


@pytest.mark.soak
def test_a_suspended_worker_delays_only_the_end_of_a_round(tmp_path):
    """It is suspended for longer than a round should take."""
    run, steps = tmp_path / "run", 40
    victim = Victim(run, "md-gan-async", "--rounds", 4, *settings(steps_per_round=steps))
    number = find_rank(victim, 1)
    victim.wait(lambda: victim.has_reached(2))
    time.sleep(0.1)
    duration = 3 * Record.open(run).rounds()[1]["seconds"]
    os.kill(number, signal.SIGSTOP)
    time.sleep(duration)
    os.kill(number, signal.SIGCONT)
    status, _, errors = victim.end()
    assert (status, errors) == (0, ""), errors
    assert_complete(run, rounds=4)
    assert not Record.open(run).failures()
    members, seconds = arrivals(run, 3)
    assert len(members) > SIZE * steps and seconds[-1] > 0.9 * duration
    assert largest_gap(seconds) < 1  # usually 0.05
    assert set(members) == set(range(SIZE))


@pytest.mark.soak
@pytest.mark.parametrize("strategy", ["md-gan-async", "cellular-async"])
def test_a_stopped_run_resumes_and_its_order_can_be_replayed(tmp_path, strategy):
    """Turns that were in flight are computed again."""
    run = tmp_path / "run"
    victim = Victim(run, strategy, "--rounds", 6, *settings(steps_per_round=30))
    victim.wait(lambda: victim.has_reached(2))
    time.sleep(0.1)
    victim.process.terminate()
    status, _, errors = victim.end()
    reached = len(Record.open(run).rounds())
    assert status == 130 and reached < 6
    assert errors == f"stopped after round {reached}; resume with: remuda resume {run}\n"
    result = remuda("resume", run)
    assert result.returncode == 0, result.stderr
    assert_complete(run, rounds=6)
    replay(run, tmp_path / "replay", strategy)
    assert_same_losses(run, tmp_path / "replay")


@pytest.mark.soak
def test_cells_of_a_lost_rank_move(tmp_path):
    run = tmp_path / "run"
    victim = Victim(run, "cellular-async", "--rounds", 12)
    victim.wait(lambda: victim.has_reached(4))
    victim.kill(2)
    status, _, errors = victim.end()
    assert (status, errors) == (0, ""), errors
    assert_complete(run, rounds=12)
    (failure,) = Record.open(run).failures()
    assert (failure["ranks"], failure["action"]) == ([2], "move")
    assert all(len(line["turns"]) == 6 for line in Record.open(run).rounds())
    library.load(run).sample(2)


@pytest.mark.soak
@pytest.mark.parametrize("strategy", RACES)
def test_without_rank_0_a_race_ends_and_can_be_resumed(tmp_path, strategy):
    run = tmp_path / "run"
    victim = Victim(run, strategy, "--rounds", 8, "--restarts", 0, *settings(steps_per_round=20))
    victim.wait(lambda: victim.has_reached(4))
    victim.kill(0)
    status, _, errors = victim.end()
    assert status == 75 and errors.startswith("remuda: rank 0 on ")
    assert f"remuda resume {run}" in errors and len(errors.strip().splitlines()) == 1
    result = remuda("resume", run)
    assert result.returncode == 0, result.stderr
    assert_complete(run, rounds=8)
