import subprocess
import sys
from importlib import import_module
from pkgutil import walk_packages

import pytest

import remuda
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


def test_users_add_and_remove_their_own_parts():
    parts = Choices({"colour": "sched:scheduler"})
    parts["mine"] = int
    assert list(parts) == ["colour", "mine"] and parts["mine"] is int
    del parts["mine"]
    assert "mine" not in parts


def test_every_export_of_every_package_can_be_imported():
    names = [module.name for module in walk_packages(remuda.__path__, "remuda.") if module.ispkg]
    for package in map(import_module, ["remuda", *names]):
        for name in getattr(package, "__all__", []):
            assert hasattr(package, name), f"{package.__name__}.{name}"
            assert name in dir(package)


def test_an_unknown_export_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'remuda' has no attribute 'colour'"):
        _ = remuda.colour
