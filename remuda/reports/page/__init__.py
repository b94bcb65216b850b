"""Write the page of a run: a single, self-contained HTML file.

This package reads the run folder; it imports neither training code nor PyTorch.
"""

from pathlib import Path

from remuda.reports.page import html, payload, pictures
from remuda.reports.page.run import read
from remuda.system.disk import write_text

__all__ = ["write"]


def write(folder: Path) -> Path:
    """Write index.html for a run, finished or not, and return the path of the page."""
    text = html.run_document(payload.payload(read(Path(folder)), pictures.Embedded()))
    path = Path(folder) / "index.html"
    write_text(path, text)
    return path
