"""The page exists while a run trains, and never delays or stops the run."""

import signal
import subprocess
import sys
import threading
import time

import pytest

import remuda
from remuda.reports import page
from remuda.training import paging
from remuda.training.paging import FIRST, INTERVAL, Pages
from tests.training.test_run import make


class Record:
    """A record that this process holds, or not."""

    def __init__(self, folder, is_ours=True):
        self.folder, self.is_ours = folder, lambda: is_ours


@pytest.fixture
def written(monkeypatch):
    """The threads that write pages, one entry for each page."""
    names = []

    def write(folder):
        names.append(threading.current_thread().name)
        (folder / "index.html").write_text("a page")

    monkeypatch.setattr(page, "write", write)
    return names


def test_a_page_is_written_after_the_first_round_and_then_rarely(tmp_path, written):
    pages = Pages(Record(tmp_path), print)
    with pages.thread:
        for age in (FIRST / 2, FIRST, FIRST + 5, FIRST + INTERVAL - 1, FIRST + INTERVAL + 1):
            pages.round(age)
            pages.wait()
    assert written == ["page"] * 2


def test_a_slow_page_takes_at_most_one_percent(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "write", lambda folder: time.sleep(0.4))
    pages = Pages(Record(tmp_path), print)
    with pages.thread:
        pages.round(10.0)
    assert pages.due - 10.0 > 100 * 0.4


def test_rounds_do_not_wait_for_a_page(tmp_path, monkeypatch):
    gate, begun = threading.Event(), []

    def write(folder):
        begun.append(folder)
        gate.wait(10)

    monkeypatch.setattr(page, "write", write)
    pages = Pages(Record(tmp_path), print)
    with pages.thread:
        began = time.perf_counter()
        for age in (10.0, 100.0, 1000.0):
            pages.round(age)
        assert time.perf_counter() - began < 5
        gate.set()
    assert begun == [tmp_path]


def test_a_page_that_fails_is_reported_once(tmp_path, monkeypatch):
    def fail(folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page, "write", fail)
    notes = []
    pages = Pages(Record(tmp_path), notes.append)
    with pages.thread:
        for age in (10.0, 100.0):
            pages.round(age)
            pages.wait()
    (note,) = notes
    assert note.startswith(f"cannot write {tmp_path}/index.html yet (") and "No space" in note


def test_the_page_of_a_run_that_continues_elsewhere_is_left_alone(tmp_path, written):
    pages = Pages(Record(tmp_path, is_ours=False), print)
    with pages.thread:
        pages.round(10.0)
    assert not written


def test_a_short_run_writes_only_its_last_page(tiny, tmp_path, written, monkeypatch):
    monkeypatch.setattr(paging, "FIRST", 600.0)  # the machine may be slow
    remuda.run(make(tiny, rounds=2), tmp_path / "run")
    assert written == ["MainThread"]


def test_pages_do_not_change_a_run(tiny, tmp_path, written, monkeypatch):
    monkeypatch.setattr(paging, "FIRST", 0.0)
    monkeypatch.setattr(paging, "INTERVAL", 0.0)
    monkeypatch.setattr(paging, "SHARE", float("inf"))
    folder = remuda.run(make(tiny, rounds=4), tmp_path / "run")
    assert written.count("page") >= 1 and written[-1] == "MainThread"
    assert (folder / "index.html").read_text() == "a page"


KILLED = """
import os, signal, sys
import remuda

class Kill(remuda.Progress):
    def round(self, line):
        if os.path.exists(sys.argv[2] + "/index.html"):
            os.kill(os.getpid(), signal.SIGKILL)

remuda.run(remuda.recipe(sys.argv[1]), sys.argv[2], progress=Kill())
"""


def test_a_killed_run_has_a_page(tiny, tmp_path):
    settings = remuda.config.to_toml(make(tiny, rounds=100_000))
    (tmp_path / "run.toml").write_text(settings)
    words = [sys.executable, "-c", KILLED, str(tmp_path / "run.toml"), str(tmp_path / "run")]
    done = subprocess.run(words, timeout=60, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    text = (tmp_path / "run" / "index.html").read_text()
    assert "class-parallel" in text and "</html>" in text
