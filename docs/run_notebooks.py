"""Run the notebooks and store their outputs; the site and GitHub show them.

Usage: python docs/run_notebooks.py
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent / "notebooks"


def execute(path: Path, folder: str) -> Any:
    """Return a notebook with the outputs of a new run in this folder."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the networks are small
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",  # runs the Python of this process
        record_timing=False,
        resources={"metadata": {"path": folder}},
    )
    client.execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop("image/jpeg", None)  # Pillow offers every picture twice
    notebook.metadata.language_info = {"name": "python"}  # the version varies
    return notebook


def main() -> None:
    """Run all notebooks in place."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(execute(path, folder), path)
            print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
