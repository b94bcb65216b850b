"""Write files safely: after a crash, a file has either its old or its new content."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def write_text(path: Path, text: str, *, is_shared: bool = False) -> None:
    """Replace a file's content in one step.

    Bytes that are not valid text, as in some folder names, are written as escapes. If other
    processes may write a shared file at the same time, the last one wins.
    """
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"), is_shared=is_shared)


def write_bytes(path: Path, content: bytes, *, is_shared: bool = False) -> None:
    """Replace a file's content in one step, as ``write_text`` does."""
    writer = f".{os.getpid()}" if is_shared else ""
    temporary = path.with_name(f".{path.name}{writer}.new")
    try:
        with temporary.open("wb") as file:
            file.write(content)
        sync(temporary)
        temporary.replace(path)
    except OSError as error:  # a full disk, or a folder in the place of the file
        with suppress(OSError):
            temporary.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from None


def append_lines(path: Path, lines: Iterable[str]) -> None:
    """Append lines to a file; first remove an incomplete last line left by a killed process."""
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        if end and os.pread(file.fileno(), 1, end - 1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        file.write("".join(f"{line}\n" for line in lines).encode())


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's entries, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cache_folder(name: str) -> Path:
    """Return a folder in $REMUDA_CACHE, or in the user's cache. It may not exist yet."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "remuda"
    return Path(os.environ.get("REMUDA_CACHE") or user).expanduser() / name
