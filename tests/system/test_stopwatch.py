"""A stopwatch adds up seconds by name; the first one of a command starts with its process."""

import subprocess
import sys
import time

import pytest

from remuda.system.stopwatch import Stopwatch


def test_seconds_add_up_by_name_and_the_rest_is_other(monkeypatch):
    monkeypatch.setattr("remuda.system.stopwatch._command", [])  # of a test that ran before
    stopwatch = Stopwatch()
    stopwatch.began -= 10
    stopwatch.add("rounds", 3)
    stopwatch.add("rounds", 4)
    with stopwatch.timed("save"):
        time.sleep(0.02)
    report = stopwatch.report()
    assert report["rounds"] == 7 and 0.02 <= report["save"] < 1
    assert report["total"] == pytest.approx(10, abs=1)
    assert report["other"] == pytest.approx(report["total"] - 7 - report["save"], abs=0.002)


def test_a_failed_block_counts_as_well():
    stopwatch = Stopwatch()
    with pytest.raises(OSError), stopwatch.timed("save"):
        raise OSError
    assert "save" in stopwatch.seconds


def test_only_the_first_stopwatch_of_a_command_starts_with_its_process():
    script = (
        "import time; time.sleep(0.3)\n"
        "from remuda.system.stopwatch import Stopwatch, start_command\n"
        "start_command()\n"
        "print(Stopwatch().total, Stopwatch().total)"
    )
    words = [sys.executable, "-c", script]
    result = subprocess.run(words, capture_output=True, text=True, check=True)
    first, second = map(float, result.stdout.split())
    assert first >= 0.3 and second < 0.1
