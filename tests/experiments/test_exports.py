"""The public names of remuda.experiments, which are imported when they are first used."""

import subprocess
import sys

import pytest

from remuda import experiments


@pytest.mark.parametrize("name", experiments.__all__)
def test_every_public_name_exists(name):
    assert getattr(experiments, name) is not None


def test_a_function_is_not_hidden_by_a_module():
    from remuda.experiments import repeat, repeats

    assert repeat is experiments.repeat is repeats.repeat


def test_the_package_does_not_import_pytorch():
    script = "import sys, remuda.experiments; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
