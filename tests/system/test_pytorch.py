"""Temporary settings of PyTorch."""

import subprocess
import sys

import torch

from remuda.system.pytorch import process_settings

# The compiler takes a second to import, so a run must not import it only to restore settings.
SCRIPT = """
import sys
from remuda.system.pytorch import process_settings
with process_settings(1, deterministic=False):
    pass
sys.exit("torch._inductor" in sys.modules)
"""


def determinism():
    is_warning = torch.is_deterministic_algorithms_warn_only_enabled()
    return torch.are_deterministic_algorithms_enabled(), is_warning


def test_unchanged_settings_do_not_import_the_compiler():
    assert subprocess.run([sys.executable, "-c", SCRIPT], check=False).returncode == 0


def test_determinism_is_restored_whoever_changed_it():
    try:
        torch.use_deterministic_algorithms(True, warn_only=True)
        with process_settings(1, deterministic=True):
            assert determinism() == (True, False)
        assert determinism() == (True, True)
        with process_settings(1, deterministic=False):
            torch.use_deterministic_algorithms(False)
        assert determinism() == (True, True)
    finally:
        torch.use_deterministic_algorithms(False)
