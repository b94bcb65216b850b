"""Slow operations show how far they have come: as a bar, as rare lines, or not at all."""

import io

import pytest
from rich.console import Console

from remuda.system import progress
from remuda.system.look import BarLine, memory, table, time
from remuda.system.progress import shown_by, shown_on, step, tracked


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def work(clock, steps: int, seconds: float) -> None:
    with tracked("drawing samples", 100, "images", "use a smaller --n"):
        for _ in range(steps):
            clock[0] += seconds
            step(10)


def test_a_library_call_prints_nothing(clock, capsys):
    work(clock, 10, 100.0)
    assert capsys.readouterr() == ("", "")
    step()  # outside of an operation


def test_a_log_gets_few_lines_and_the_advice_once(clock):
    log = io.StringIO()
    with shown_on(Console(file=log, width=200)):
        work(clock, 3, 0.5)
        assert log.getvalue() == "", "short operations are not worth a line"
        work(clock, 10, 20.0)
    assert log.getvalue().splitlines() == [
        "drawing samples takes about 3 min 20 s: use a smaller --n",
        "drawing samples: 10 of 100 images, 3 min 0 s left",
        "drawing samples: 50 of 100 images, 1 min 40 s left",
        "drawing samples: 90 of 100 images, 20 s left",
    ]


def test_other_ranks_print_messages_but_no_progress(clock):
    log = io.StringIO()
    with shown_on(Console(file=log, width=200), has_tasks=False):
        work(clock, 10, 20.0)
        progress.say("waiting")
    assert log.getvalue() == "waiting\n"


def test_a_terminal_gets_a_bar_that_disappears():
    console = Console(file=io.StringIO(), width=60, force_terminal=True, no_color=True)
    with shown_on(console), tracked("computing features", 4, "images") as task:
        task.start -= 2.0
        step(2)
        line = progress.lines()[0].text(60).plain
    assert line.startswith("computing features ━") and line.endswith("2 s left  2/4 images")
    assert not progress.lines()


def test_another_display_shows_operations_and_messages(clock):
    notes = []
    screen = io.StringIO()
    with shown_on(Console(file=screen, force_terminal=True)), shown_by(notes.append):
        work(clock, 10, 20.0)
    assert screen.getvalue() == "" and len(notes) == 1 and "use a smaller --n" in notes[0]


@pytest.mark.parametrize("width", [1, 10, 20, 40, 60, 80, 110, 200])
def test_lines_fit(width):
    line = BarLine("downloading a-file-with-a-long-name.tar.gz", 0.5, "3 min 20 s left", ["1/2"])
    text = line.text(width).plain
    assert len(text) <= width
    if width >= 40:
        assert "3 min 20 s" in text and "━" in text and "downloading" in text
    assert line.text(width, ascii_only=True).plain.isascii()


def test_formats():
    assert [time(x) for x in (0.4, 59.6, 3600, 90061)] == [
        "0 s",
        "1 min 0 s",
        "1 h 0 min",
        "1 d 1 h",
    ]
    assert [memory(x * 2**20) for x in (0.2, 504, 1229)] == ["0 MiB", "504 MiB", "1.2 GiB"]
    sides = [column.justify for column in table("a", "b", "c", right=["b"]).columns]
    assert sides == ["left", "right", "left"]
