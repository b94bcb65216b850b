"""Check the names that the package exports, and the kinds by name."""

import subprocess
import sys

import pytest

import remuda.scores
from remuda.scores import kinds
from remuda.scores.config import KINDS


@pytest.mark.parametrize("name", remuda.scores.__all__)
def test_every_exported_name_exists(name):
    assert getattr(remuda.scores, name) is not None


def test_every_kind_has_one_name():
    defined = [part for part in vars(kinds).values() if isinstance(part, kinds.Kind)]
    assert list(KINDS.values()) == defined


def test_the_names_of_scores_need_no_pytorch():
    code = "import sys, remuda.scores as s; print(*s.KINDS); assert 'torch' not in sys.modules"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == list(KINDS)
