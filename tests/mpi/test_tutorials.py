"""Run the commands of the tutorials that start ranks."""

import subprocess
import sys

import pytest

from tests.mpi.starting import ENVIRONMENT
from tests.test_tutorials import DOCS, RANKS, follow, in_process


def call(words: list[str]) -> None:
    """Run a command, in processes of its own if it starts ranks."""
    if "--ranks" not in words:
        return in_process(words)
    command = [sys.executable, "-m", "remuda", *words]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, env=ENVIRONMENT)
    assert result.returncode == 0, f"{words}: {result.stdout}{result.stderr}"


@pytest.mark.soak
@pytest.mark.parametrize("name", RANKS)
def test_the_commands_of_a_tutorial_work(name, tmp_path, monkeypatch, empty_pages):
    monkeypatch.chdir(tmp_path)
    assert follow(DOCS / name, call) > 4
