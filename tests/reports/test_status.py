"""What ``remuda status`` shows, from run folders made by hand."""

import io
import json
import os
import platform
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
import torch
from rich.console import Console

import remuda
from remuda import config
from remuda.errors import UserError
from remuda.record.checkpoints import Leaves, save
from remuda.reports import status
from remuda.system.processes import birth
from tests.reports.page.records import score_line

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def rank(number=0, **changes):
    process = {"host": platform.node(), "pid": os.getpid(), "born": birth(os.getpid())}
    place = {"rank": number, "members": [number], "state": "processing", "round": 4}
    contact = {"contact": "on time", "remark": "", "silent": 0.4}
    machine = {"cores": 2, "memory": 1 << 34, "device": "cpu"}
    return process | place | contact | machine | changes


def line(t):
    losses = {"discriminator_loss": [0.5, 1.5], "generator_loss": [1.0, 2.0]}
    seconds = 2.0 if t % 2 else 4.0
    return {"round": t, **losses, "seconds": seconds, "images": t, "images_per_second": 1234.0}


@pytest.fixture
def folder(tmp_path):
    """A run folder after four of a hundred rounds, written a second ago."""
    (tmp_path / "config.toml").write_text(
        config.to_toml(config.from_dict({"run": {"rounds": 100}}))
    )
    write_lines(tmp_path / "rounds.jsonl", *map(line, range(1, 5)))
    tell(tmp_path)
    return tmp_path


def write_lines(path, *lines):
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))


def tell(folder, *ranks, state="running", why="", seconds_ago=1.0):
    told = (NOW - timedelta(seconds=seconds_ago)).isoformat()
    values = {
        "state": state,
        "why": why,
        "time": told,
        "rounds": 100,
        "ranks": list(ranks) or [rank()],
    }
    (folder / "status.json").write_text(json.dumps(values))


def shown(folder):
    console = Console(width=300, record=True, file=io.StringIO())
    console.print(status.render(status.read(folder, NOW)))
    return [text.rstrip() for text in console.export_text().splitlines()]


def dead_process():
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    return child.pid


def test_speed_time_left_and_losses(folder):
    assert shown(folder) == [
        f"{folder}: running, round 4 of 100, 3 s per round, 4 min 48 s left",
        "discriminator_loss 1.000  generator_loss 1.500  1,234 images/s",
    ]


def test_the_last_scores(folder):
    scores = [(2, "fid", 9.0), (4, "fid", 7.25), (4, "kid", 0.01), (4, "fid", 7.125)]
    write_lines(folder / "scores.jsonl", *(score_line(*score, seed=0) for score in scores))
    assert shown(folder)[2] == "scores of round 4: fid 7.125, kid 0.01"


def test_the_best_checkpoint(folder):
    values = {"run": {"rounds": 100, "keep_best": "fid"}, "scores": {"every": 2}}
    (folder / "config.toml").write_text(config.to_toml(config.from_dict(values)))
    scores = [(2, "fid", 7.0), (4, "fid", 9.0)]
    write_lines(folder / "scores.jsonl", *(score_line(*score, seed=0) for score in scores))
    assert shown(folder)[3:] == [], "it has no checkpoint"
    save(folder / "checkpoints", 2, Leaves({"x": torch.zeros(3, 2)}, {}), 3, range(3))
    assert shown(folder)[3] == "best checkpoint: round 2, fid 7"


@pytest.mark.parametrize(
    ("root", "seconds_ago", "state", "words"),
    [
        ({}, 1, "running", None),
        ({}, 40, "running", "nothing was written for 40.0 s: process {pid} is stopped or blocked"),
        ({"pid": None}, 1, "killed", None),  # the number of a process that has ended
        ({"born": 1}, 1, "killed", None),  # another process has its number now
        ({"host": "far", "pid": 1}, 20, "running", None),
        (
            {"host": "far", "pid": 1},
            200,
            "killed",
            "nothing was written for 3 min 20 s: the run was last trained on far",
        ),
    ],
)
def test_running_or_killed(folder, root, seconds_ago, state, words):
    """Here the process decides, on another machine the age of status.json."""
    root = {**root, "pid": dead_process()} if root.get("pid", 0) is None else root
    tell(folder, rank(**root), seconds_ago=seconds_ago)
    lines = shown(folder)
    assert lines[0].startswith(f"{folder}: {state}, round 4 of 100, 3 s per round")
    assert lines[2:] == ([words.format(pid=os.getpid())] if words else [])


def test_finished_and_stopped_runs(folder):
    tell(
        folder,
        rank(pid=dead_process()),
        state="stopped",
        why="stopped after round 4",
        seconds_ago=1e6,
    )
    assert shown(folder)[0] == f"{folder}: stopped, round 4 of 100, 3 s per round"
    assert shown(folder)[-1] == "stopped after round 4"
    tell(folder, rank(pid=dead_process()), state="finished", seconds_ago=1e6)
    assert ": finished," in shown(folder)[0]


def test_a_line_for_every_rank(folder):
    remark = "rank 1 on far (process 7) has not been heard for 16 s and is delayed"
    late = rank(
        1, host="far", pid=7, members=[5, 1, 2, 3], silent=16.2, contact="delayed", remark=remark
    )
    gone = rank(1, host="far", pid=8, members=[], state="inactive", contact="gone")
    tell(folder, rank(members=[0], speed=12.345), late, gone)
    failure = {"round": 3, "time": "", "ranks": [1], "hosts": ["far"], "members": [4]}
    write_lines(folder / "failures.jsonl", {**failure, "action": "move"})
    lines = shown(folder)
    assert lines[2].split() == [
        "rank",
        "host",
        "process",
        "device",
        "members",
        "speed",
        "state",
        "round",
        "last",
        "seen",
    ]
    own = ["0", platform.node(), str(os.getpid()), "cpu", "0", "12.3/s"]
    assert lines[3].split() == [*own, "processing", "4", "0", "s", "ago"]
    assert lines[4].split() == [
        "1",
        "far",
        "7",
        "cpu",
        "1-3,",
        "5",
        "processing",
        "4",
        "16",
        "s",
        "ago",
        "delayed",
    ]
    assert lines[5].split() == ["1", "far", "8", "cpu", "inactive", "4", "0", "s", "ago", "gone"]
    assert lines[6:] == ["after round 3: lost 1 rank (1) on far with members 4; move", remark]


def test_a_run_without_a_status(folder):
    (folder / "status.json").unlink()
    assert ": not known, round 4 of 100" in shown(folder)[0]
    assert "has no status.json" in shown(folder)[-1]
    (folder / "rounds.jsonl").unlink()
    assert len(shown(folder)) == 2 and "round 0 of 100" in shown(folder)[0]
    write_lines(folder / "rounds.jsonl", line(100))
    assert ": finished, round 100 of 100" in shown(folder)[0]


def test_other_folders_and_damaged_files_raise(folder, tmp_path):
    with pytest.raises(UserError, match="is not a run"):
        status.read(tmp_path / "nothing")
    (folder / "status.json").write_text("{")
    with pytest.raises(UserError, match=r"status\.json cannot be read"):
        status.read(folder)
    tell(folder)
    (folder / "rounds.jsonl").write_text("x\n")
    with pytest.raises(UserError, match=r"rounds\.jsonl cannot be read"):
        status.read(folder)


def test_a_run_is_followed_until_its_end(tiny, tmp_path):
    """A run in one process has no other ranks."""
    values = config.override(tiny, ["run.rounds=150"])
    training = threading.Thread(
        target=remuda.run, args=(config.from_dict(values), tmp_path / "run")
    )
    training.start()
    files = [tmp_path / "run" / name for name in ("rounds.jsonl", "status.json")]
    while not all(path.exists() for path in files):
        time.sleep(0.01)
    seen = status.read(tmp_path / "run")
    assert (seen.state, seen.rounds, len(seen.ranks)) == ("running", 150, 1)
    command = [sys.executable, "-m", "remuda", "status", str(tmp_path / "run")]
    result = subprocess.run([*command, "--watch"], capture_output=True, text=True, timeout=100)
    training.join()
    assert result.returncode == 0 and "finished, round 150 of 150" in result.stdout, result.stderr
    again = subprocess.run(command, capture_output=True, text=True, timeout=100).stdout
    assert again.splitlines()[0] in result.stdout and "discriminator_loss" in again


def test_ctrl_c_ends_the_display(folder, monkeypatch):
    def interrupt(seconds):
        assert seconds == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    console = Console(width=300, record=True, file=io.StringIO())
    status.follow(folder, console)
    assert console.export_text().count("running, round 4 of 100") == 1


def test_invalid_settings_of_heartbeats_raise():
    for assignment, words in [
        ("engine.heartbeat_timeout=0.5", "at least 1 second"),
        ("engine.heartbeat_timeout=nan", "at least 1 second"),
        ("engine.heartbeat_limit=10", r"0 or at least engine\.heartbeat_timeout=15"),
        ("engine.heartbeat_limit=-1", "0 or at least"),
    ]:
        with pytest.raises(UserError, match=words):
            config.from_dict(config.override({}, [assignment]))
    config.from_dict(config.override({}, ["engine.heartbeat_limit=0"]))
