"""Run the examples as they are, each in its own process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

FOLDER = Path(__file__).parents[1] / "examples"
PARTS = {"own_networks"}  # files with parts that a recipe names; docs/own-networks.md shows them
PICTURES = {  # what each writes into the given folder
    "run_recipe": "example-001/threes.png",
    "by_hand": "by_hand.png",
    "own_strategy": "own_strategy.png",
}


def test_every_example_is_tested_and_short():
    scripts = [path for path in FOLDER.glob("*.py") if path.stem not in PARTS]
    assert {path.stem for path in scripts} == set(PICTURES)
    assert all(path.read_text().count("\n") < 60 for path in scripts)


@pytest.mark.parametrize("name", PICTURES)
def test_an_example_runs_and_leaves_a_picture(name, tmp_path):
    result = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", tmp_path / "out"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "nothing is written elsewhere"
    picture = tmp_path / "out" / PICTURES[name]
    assert str(picture) in result.stdout
    assert len(Image.open(picture).getcolors()) > 10, "more than one shade"
