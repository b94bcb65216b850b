import subprocess
import sys

import pytest

from remuda.system.choices import Choices


def test_parts_are_imported_when_they_are_used():
    program = """
import sys
from remuda.system.choices import Choices
parts = Choices({"colour": "sched:scheduler"})
assert list(parts) == ["colour"] and "colour" in parts and len(parts) == 1
assert "sched" not in sys.modules
assert parts["colour"].__name__ == "scheduler"
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unknown_name_is_a_key_error():
    with pytest.raises(KeyError):
        Choices({})["colour"]
