"""The page of a run: its record as one HTML file that needs nothing else.

It reads the files of the record and imports no training code.
"""

import os
from pathlib import Path

from remuda.report import page, reading

__all__ = ["write"]


def write(folder: Path) -> Path:
    """Write index.html into a run's folder, which may be half done; returns the page's path."""
    text = page.render(reading.read(Path(folder)))
    path = Path(folder) / "index.html"
    temporary = path.with_name(".index.html.new")  # a reader finds the old page or the new one, never a part
    # Names of folders may hold bytes that are no text; they are shown as escapes.
    with temporary.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return path
