"""Reports start quickly: they do not import PyTorch, which takes seconds."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "remuda.record",
        "remuda.record.reader",
        "remuda.reports.index.terminal",
        "remuda.reports.page.payload",
        "remuda.reports.status",
        "remuda.reports.watch.server",
    ],
)
def test_no_torch(module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_no_torch_for_the_reader_as_users_import_it():
    code = "import sys; from remuda.record import Reader; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
