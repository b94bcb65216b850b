"""Summaries of the runs of a folder, from run folders made by hand."""

import json
import os
import platform
import time
from datetime import UTC, datetime, timedelta

import pytest

from remuda.errors import UserError
from remuda.reports import index
from remuda.reports.index.files import RECENT, SMALL
from remuda.system.processes import birth
from tests.reports.page.records import (
    add_grid,
    add_rounds,
    add_scores,
    make_record,
    round_line,
    score_line,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def tell(folder, state="running", *, rounds=10, host=None, seconds_ago=1.0, **changes):
    told = (NOW - timedelta(seconds=seconds_ago)).isoformat()
    process = {"host": host or platform.node(), "pid": os.getpid(), "born": birth(os.getpid())}
    ranks = [{**process, "remark": "", **changes}]
    values = {"state": state, "why": "", "time": told, "rounds": rounds, "ranks": ranks}
    (folder / "status.json").write_text(json.dumps(values))


def summaries(folder, cache=None):
    found = (cache or index.Cache()).summaries(folder, NOW)
    return {one.name: one for one in found}


def test_a_running_run(tmp_path):
    run = make_record(tmp_path / "a", rounds=4, planned=10)
    (run / "environment.json").write_text(json.dumps([{"time": "then"}, {"time": "later"}]))
    tell(run, rounds=10)
    add_grid(run, 2)
    add_grid(run, 4)
    one = summaries(tmp_path)["a"]
    assert (one.state, one.strategy, one.data) == ("running", "class-parallel", "digits")
    assert (one.reached, one.planned, one.started) == (4, 10, "then")
    assert (one.left, one.seconds, one.is_exact) == (6 * 30.0, 4 * 30.0, True)
    assert one.grid == (4, run / "samples" / "round-000004.png")


def test_states(tmp_path):
    make_record(tmp_path / "new", rounds=0)
    make_record(tmp_path / "old", rounds=10, planned=10)
    for name, state in (("a", "finished"), ("b", "stopped")):
        tell(make_record(tmp_path / name), state)
    tell(make_record(tmp_path / "c"), born=1)
    tell(make_record(tmp_path / "d"), host="far", seconds_ago=5)
    tell(make_record(tmp_path / "e"), host="far", seconds_ago=500)
    states = {name: one.state for name, one in summaries(tmp_path).items()}
    assert states == {
        "a": "finished",
        "b": "stopped",
        "c": "killed",
        "d": "running",
        "e": "killed",
        "new": "not known",
        "old": "finished",
    }


def test_scores(tmp_path):
    run = make_record(tmp_path / "a")
    lines = [
        score_line(2, "fid_1k_train_x", 9.0),
        score_line(4, "fid_1k_train_x", 7.0),
        score_line(4, "fid_1k_train_x", 8.0),  # scored again: the last line counts
        score_line(6, "fid_1k_train_x", 8.0),  # of equal values, the earliest is the best
        score_line(8, "fid_1k_train_x", float("nan")),
        score_line(4, "is_1k_x", 2.0),
        score_line(8, "is_1k_x", 3.0),
        score_line(8, "neighbours_1k", 5.0),
        score_line(8, "mine", 5.0, better="higher"),
    ]
    add_scores(run, *lines)
    found = {one.name: one for one in summaries(tmp_path)["a"].scores}
    assert found["fid_1k_train_x"].best == (4, 8.0) and found["fid_1k_train_x"].newest[0] == 8
    assert (found["is_1k_x"].best, found["is_1k_x"].direction) == ((8, 3.0), "↑")
    assert found["neighbours_1k"].best is None, "no direction is better"
    assert found["mine"].best == (8, 5.0)


def test_the_best_score_is_the_one_that_the_run_keeps(tmp_path):
    run = make_record(tmp_path / "a")
    add_scores(run, score_line(2, "neighbours_1k", 1.0), score_line(2, "fid", 9.0))
    assert summaries(tmp_path)["a"].chosen.name == "fid"
    add_scores(run, score_line(2, "kid", 9.0))
    text = (run / "config.toml").read_text().replace("members = 0", 'members = 0\nkeep_best="kid"')
    (run / "config.toml").write_text(text)
    assert summaries(tmp_path)["a"].chosen.name == "kid"


def test_long_files_are_read_at_their_ends_only(tmp_path):
    run = make_record(tmp_path / "a", rounds=2000, members=3, planned=2000)
    assert (run / "rounds.jsonl").stat().st_size > SMALL
    lines = (run / "rounds.jsonl").read_text().splitlines()
    lines[1000] = "damaged"
    (run / "rounds.jsonl").write_text("\n".join(lines) + "\n")
    cache = index.Cache()
    one = summaries(tmp_path, cache)["a"]
    assert (one.reached, one.is_exact) == (2000, False)
    assert one.seconds == pytest.approx(2000 * 30.0), "an estimate"
    add_rounds(run, [round_line(2001, 3) | {"seconds": 7.0}])
    one = summaries(tmp_path, cache)["a"]
    assert (one.reached, one.seconds) == (2001, pytest.approx(2000 * 30.0 + 7.0))


def test_the_time_left_follows_the_last_rounds(tmp_path):
    run = make_record(tmp_path / "a", rounds=0, planned=1000)
    slow = [round_line(t, 1) | {"seconds": 60.0} for t in range(1, 11)]
    fast = [round_line(t, 1) | {"seconds": 1.0} for t in range(11, 11 + RECENT)]
    add_rounds(run, slow + fast)
    tell(run, rounds=1000)
    assert summaries(tmp_path)["a"].left == 1000 - 10 - RECENT


def test_an_update_reads_only_what_changed(tmp_path, monkeypatch):
    runs = [make_record(tmp_path / name) for name in "abc"]
    for run in runs:
        tell(run)
        add_scores(run, score_line(2, "fid", 9.0))
    cache = index.Cache()
    summaries(tmp_path, cache)
    opened = []
    plain = type(tmp_path).open

    def watched(path, *words, **options):
        opened.append(path)
        return plain(path, *words, **options)

    monkeypatch.setattr(type(tmp_path), "open", watched)
    add_scores(runs[1], score_line(4, "fid", 5.0))
    opened.clear()
    found = summaries(tmp_path, cache)
    assert found["b"].chosen.best == (4, 5.0) and found["a"].chosen.best == (2, 9.0)
    inside = [path for path in opened if path.is_relative_to(tmp_path)]
    assert inside == [runs[1] / "scores.jsonl"]


def test_a_resumed_run_forgets_what_was_removed(tmp_path):
    run = make_record(tmp_path / "a", rounds=8)
    add_scores(run, score_line(8, "fid", 1.0))
    cache = index.Cache()
    assert summaries(tmp_path, cache)["a"].reached == 8
    lines = (run / "rounds.jsonl").read_text().splitlines()[:5]
    (run / "rounds.jsonl").write_text("\n".join(lines) + "\n")
    (run / "scores.jsonl").write_text("")
    one = summaries(tmp_path, cache)["a"]
    assert (one.reached, one.seconds, one.scores) == (5, 150.0, [])


def test_runs_come_and_go(tmp_path):
    cache = index.Cache()
    make_record(tmp_path / "a")
    assert list(summaries(tmp_path, cache)) == ["a"]
    make_record(tmp_path / "repeats" / "seed-000")
    make_record(tmp_path / "a" / "inside")  # a run is not searched
    make_record(tmp_path / ".hidden")
    make_record(tmp_path / "1" / "2" / "3" / "4")  # too deep
    assert list(summaries(tmp_path, cache)) == ["a", "repeats/seed-000"]
    (tmp_path / "a" / "config.toml").unlink()
    assert list(summaries(tmp_path, cache)) == ["a/inside", "repeats/seed-000"]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.toml", "[run\n"),
        ("config.toml", "[run]\nrounds = 3\n"),
        ("config.toml", 'run = 1\n[strategy]\nname = "x"\n'),
        ("config.toml", 'run = {rounds = inf}\nstrategy = {name = "x"}\ndata = {name = "y"}\n'),
        ("data.json", "{}"),
        ("environment.json", "3"),
        ("status.json", "{"),
        ("status.json", '{"state": "running", "why": "", "time": "x", "rounds": 1, "ranks": [{}]}'),
        ("status.json", '{"a":' * 100_000 + "1" + "}" * 100_000),
        ("rounds.jsonl", "x\n"),
        ("rounds.jsonl", "[" * 100_000 + "]" * 100_000 + "\n"),
        ("rounds.jsonl", f'{{"round": 1, "seconds": {10**400}}}\n'),
        ("scores.jsonl", '{"round": 1}\n'),
    ],
)
def test_a_damaged_run_does_not_hide_the_others(tmp_path, file, content):
    make_record(tmp_path / "a")
    (make_record(tmp_path / "b") / file).write_text(content)
    found = summaries(tmp_path)
    assert found["a"].state == "not known" and found["b"].state == "damaged"
    assert file in found["b"].remarks[0]


def test_a_link_that_leads_to_itself_does_not_hide_the_runs(tmp_path):
    make_record(tmp_path / "a")
    (tmp_path / "loop").symlink_to("loop")
    assert list(summaries(tmp_path)) == ["a"]


def test_a_folder_that_cannot_be_read_raises(tmp_path):
    with pytest.raises(UserError, match="nothing cannot be read"):
        index.Cache().summaries(tmp_path / "nothing")


# The payload


def test_payload(tmp_path):
    run = make_record(tmp_path / "runs" / "a")
    add_scores(run, score_line(2, "fid", 9.0), score_line(4, "fid", float("inf")))
    add_grid(run, 4)
    values = index.payload(tmp_path / "runs", index.Cache(), lambda path: path.name)
    json.dumps(values, allow_nan=False)
    (one,) = values["runs"]
    assert (values["name"], one["id"], one["chosen"]) == ("runs", "a", "fid")
    assert one["scores"]["fid"] == {
        "direction": "↓",
        "best": {"round": 2, "value": 9.0},
        "newest": {"round": 4, "value": None},
    }
    assert one["picture"] == {"round": 4, "src": "round-000004.png", "is_points": False}


def test_the_payload_is_the_same_while_nothing_changes(tmp_path):
    tell(make_record(tmp_path / "a"), "finished")
    cache = index.Cache()
    first, second = (index.payload(tmp_path, cache, str) for _ in range(2))
    assert first == second


def test_links_to_runs_outside_are_left_out(tmp_path):
    make_record(tmp_path / "other" / "secret")
    make_record(tmp_path / "runs" / "a")
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "other" / "secret")
    (tmp_path / "runs" / "all").symlink_to(tmp_path / "other")
    values = index.payload(tmp_path / "runs", index.Cache(), str)
    assert [run["id"] for run in values["runs"]] == ["a"]
    assert len(summaries(tmp_path / "runs")) == 3, "a terminal may show them"


def test_hundreds_of_runs_are_cheap(tmp_path):
    for i in range(200):
        add_scores(make_record(tmp_path / f"{i:03d}"), score_line(2, "fid", 9.0))
    cache = index.Cache()
    times = []
    for _ in range(4):
        start = time.process_time()
        assert len(index.payload(tmp_path, cache, str)["runs"]) == 200
        times.append(time.process_time() - start)
    # On an idle machine, 500 runs take less than 2 seconds, and then 0.2 seconds.
    # Without the cache, all times would be equal.
    assert times[0] < 3 and min(times[1:]) < times[0] / 2
