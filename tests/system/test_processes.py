"""The age of a process."""

import subprocess
import sys
import time

from remuda.system import processes


def test_the_age_counts_from_the_start_of_the_process():
    script = (
        "import time; time.sleep(0.5); from remuda.system import processes as p; print(p.age())"
    )
    began = time.perf_counter()
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
    # The system counts in steps of a hundredth of a second.
    assert 0.45 < float(printed) < time.perf_counter() - began + 0.05


def test_the_age_grows():
    age = processes.age()
    time.sleep(0.1)
    assert 0.05 < processes.age() - age < 60


def test_systems_without_proc_count_processor_time(monkeypatch):
    monkeypatch.setattr(processes.sys, "platform", "darwin")
    monkeypatch.setattr(processes.time, "process_time", lambda: 2.5)
    assert processes.age() == 2.5
