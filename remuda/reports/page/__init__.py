"""The page of a run: its record as one HTML file that needs nothing else.

It reads the files of the record and imports no training code.
"""

from pathlib import Path

from remuda.reports.page import html as page
from remuda.reports.page import reading
from remuda.system.disk import write_text

__all__ = ["write"]


def write(folder: Path) -> Path:
    """Write index.html into a run's folder, which may be half done; returns the page's path."""
    text = page.render(reading.read(Path(folder)))
    path = Path(folder) / "index.html"
    write_text(path, text)
    return path
