"""Follow a file with one JSON object per line: read only the lines that were added."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from remuda.record.files import Line, damaged, parse_line

KNOWN = 256  # bytes before the current place; if they change, the file was rewritten


class Tail:
    """The place in a file up to which lines have been read.

    If the file has more than ``small`` bytes, the first call skips its start: it reads about
    ``keep`` bytes, and at least one line.
    """

    def __init__(
        self,
        path: Path,
        parse: Callable[[Line], Any],
        small: int | None = None,
        keep: int = 1 << 14,
    ):
        self.path = path
        self.parse = parse
        self.small = small
        self.keep = keep
        self.skipped = 0  # bytes
        self._inode: int | None = None  # of the file that was read last
        self._forget()

    def _forget(self) -> None:
        self._stamp: tuple[int, int] | None = None  # time of the last change, and size
        self._offset = 0
        self._number = 0  # lines between the skipped bytes and the offset
        self._known = b""  # the bytes before the offset

    def read(self, restart: Callable[[], None]) -> Iterator[Any]:
        """Yield the complete lines that were added since the last call.

        A resumed run rewrites its files. In the first call, and if earlier lines changed, call
        ``restart`` before the first line. Consume all lines, because the place is stored at the
        end.
        """
        try:
            stamp = stamp_of(self.path)
            if stamp is None:
                self._forget()
                restart()
            elif stamp != self._stamp:
                with self.path.open("rb") as file:
                    if not self._continues(file):
                        self._forget()
                        self._skip(file)
                        restart()
                    yield from self._lines(file)
                self._stamp = stamp
        except OSError as error:
            raise damaged(self.path, error) from None

    def _continues(self, file: BinaryIO) -> bool:
        inode = os.fstat(file.fileno()).st_ino
        if inode != self._inode:
            self._inode = inode
            return False
        file.seek(self._offset - len(self._known))
        return file.read(len(self._known)) == self._known

    def _skip(self, file: BinaryIO) -> None:
        self._offset = self.skipped = 0
        size, keep = file.seek(0, os.SEEK_END), self.keep
        if self.small is None or size <= self.small:
            return
        while keep < size:
            file.seek(size - keep)
            block = file.read(keep)
            if block.count(b"\n") > 1:  # the end of a line, and a complete one
                end = block.index(b"\n") + 1
                self._offset = self.skipped = size - keep + end
                self._known = block[:end][-KNOWN:]
                return
            keep *= 8

    def _lines(self, file: BinaryIO) -> Iterator[Any]:
        file.seek(self._offset)
        place = f" after byte {self.skipped}" if self.skipped else ""
        for text in file:
            if not text.endswith(b"\n"):
                break  # the run is writing this line, or was killed while it wrote
            number = f"line {self._number + 1}{place}"
            yield parse_line(self.path, text, number, self.parse)
            self._number += 1
            self._offset += len(text)
            self._known = (self._known + text)[-KNOWN:]


def stamp_of(path: Path) -> tuple[int, int] | None:
    """Return the time of the last change and the size of a file; None if it does not exist.

    Raise OSError for a pipe or a device, because reading it may block forever.
    """
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    if not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return facts.st_mtime_ns, facts.st_size


def leads_into(root: Path, path: Path) -> bool:
    """Return whether a path is in a folder after all its links are followed."""
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # before Python 3.13, a link to itself is a RuntimeError
        return False
