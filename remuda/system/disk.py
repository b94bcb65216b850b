"""Files that are, at any moment and after any crash, the old or the new one."""

import os
from collections.abc import Iterable
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Replace a file's content as a whole; bytes of folders' names that are no text become escapes."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    sync(temporary)
    temporary.replace(path)


def append_lines(path: Path, lines: Iterable[str]) -> None:
    """Add lines to a file; a last line that a kill has torn is taken off first."""
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        if end and os.pread(file.fileno(), 1, end - 1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        file.write("".join(f"{line}\n" for line in lines).encode())


def sync(path: Path) -> None:
    """Have a file's content, or a folder's entries, reach the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
