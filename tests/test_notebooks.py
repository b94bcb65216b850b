"""Run the notebooks, and check that they contain outputs of the same kinds."""

import importlib.util
import json
from pathlib import Path

import nbformat
import pytest

from tests.test_public_api import ROOT

SCRIPT = ROOT / "docs" / "run_notebooks.py"
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
spec = importlib.util.spec_from_file_location("run_notebooks", SCRIPT)
assert spec is not None and spec.loader is not None
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)


def kinds(notebook) -> list[list[tuple[str, list[str]]]]:
    """Return the outputs of every cell, without their content."""
    return [
        [(output.output_type, sorted(output.get("data", {}))) for output in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_there_are_two_notebooks():
    assert [path.stem for path in NOTEBOOKS] == ["first-herd", "own-network"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_as_it_is_stored(path, tmp_path):
    stored = nbformat.read(path, as_version=4)
    assert kinds(script.execute(path, str(tmp_path))) == kinds(stored)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_describes_its_pictures(path: Path):
    assert path.stat().st_size < 200_000
    for cell in json.loads(path.read_text())["cells"]:
        outputs = cell.get("outputs", [])
        assert not [one for one in outputs if one.get("name") == "stderr"]
        if any("image/png" in one.get("data", {}) for one in outputs):
            assert cell["metadata"].get("alt"), "a picture needs a text for those who cannot see it"
