"""The list of runs that ``remuda status FOLDER`` prints."""

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from remuda.cli.results import show_status
from remuda.errors import UserError
from remuda.reports.index import terminal
from tests.reports.index.test_index import tell
from tests.reports.page.records import add_scores, make_record, score_line


def console(width=200):
    return Console(width=width, record=True, file=io.StringIO())


@pytest.fixture
def runs(tmp_path):
    """A finished run, a damaged one, and one that trains."""
    a = make_record(tmp_path / "a", rounds=10)
    tell(a, "finished")
    add_scores(a, score_line(4, "fid", 9.125), score_line(10, "fid", 11.0))
    (make_record(tmp_path / "[b]") / "config.toml").write_text("x")
    tell(make_record(tmp_path / "repeats" / "seed-001"), host="far", rounds=10, seconds_ago=-1e9)
    return tmp_path


def lines(folder, width=400):
    shown = console(width)
    terminal.show(folder, shown)
    return [line.rstrip() for line in shown.export_text().splitlines()]


def test_all_runs_are_listed_and_running_ones_come_first(runs):
    first, header, *rows, remark = lines(runs)
    assert first == f"{runs}: 3 runs, 1 running, 1 damaged, 1 finished"
    assert header.split() == ["run", "state", "round", "time", "left", "best", "score", "so", "far"]
    assert [row.split() for row in rows] == [
        ["repeats/seed-001", "running", "4", "of", "10", "3", "min", "0", "s"],
        ["[b]", "damaged"],
        ["a", "finished", "10", "of", "10", "fid", "9.125", "(round", "4)"],
    ]
    assert remark.startswith("[b]: ") and "config.toml cannot be read" in remark


@pytest.mark.parametrize("width", [40, 60, 80, 110])
def test_nothing_is_lost_on_a_narrow_terminal(runs, width):
    shown = lines(runs, width)
    assert all(len(line) <= width for line in shown)
    text = "".join("".join(line.split()) for line in shown)
    for word in ("running", "finished", "4of10", "3min0s"):
        assert word in text


def test_a_folder_without_runs_raises(tmp_path):
    with pytest.raises(UserError, match=r"is not a run of remuda.*contains no runs.*remuda list"):
        terminal.show(tmp_path, console())


def test_the_list_is_shown_until_no_run_trains(runs, monkeypatch):
    pauses = []

    def wait(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            tell(runs / "repeats" / "seed-001", "finished")

    monkeypatch.setattr(time, "sleep", wait)
    shown = console()
    terminal.follow(runs, shown)
    assert len(pauses) == 2 and shown.export_text().count("2 finished") == 1


def test_ctrl_c_ends_the_display(runs, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    shown = console()
    terminal.follow(runs, shown)
    assert shown.export_text().count("1 running") == 1


def test_the_command_chooses_by_the_folder(runs, capsys):
    show_status(runs)
    assert "3 runs, 1 running" in " ".join(capsys.readouterr().out.split())  # wrapped by width
    show_status(runs / "a")
    assert "finished, round 10 of 10, 30 s per round" in capsys.readouterr().out
    with pytest.raises(UserError, match="nothing is not a run of remuda"):
        show_status(Path("nothing"))
