"""Processes on ranks, started as a user would."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from remuda.mpirun import find, options

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}

pytest.importorskip("mpi4py", reason="ranks need mpi4py")


def on_ranks(num_ranks, *words, timeout=200):
    """What a Python module prints and exits with, on so many ranks."""
    mpirun = find()
    command = [mpirun, *options(mpirun, num_ranks), "-n", str(num_ranks), sys.executable, "-m", "mpi4py", "-m"]
    return _run([*command, *map(str, words)], timeout)


def remuda(*words, timeout=200):
    return _run([sys.executable, "-m", "remuda", *map(str, words)], timeout)


def _run(command, timeout):
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=ENVIRONMENT, cwd=ROOT)
