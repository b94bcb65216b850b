"""Start processes on ranks, as a user would."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from remuda.cluster.mpirun import command

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}

pytest.importorskip("mpi4py", reason="ranks need mpi4py")


def on_ranks(num_ranks, *words, timeout=200):
    """Run a Python module on several ranks and return its output and exit status."""
    module = ["-m", "mpi4py", "-m", *map(str, words)]
    return _run([*command(num_ranks), sys.executable, *module], timeout)


def remuda(*words, timeout=200):
    """Run a remuda command and return its output and exit status."""
    return _run([sys.executable, "-m", "remuda", *map(str, words)], timeout)


def _run(words, timeout):
    return subprocess.run(
        words, capture_output=True, text=True, timeout=timeout, env=ENVIRONMENT, cwd=ROOT
    )
