"""Keep decoded images in a file, so that they need no memory.

The file has one record of the same length for each image. It is made once for a list of files and
the data settings, and found again by a digest of both. A file with its final name is complete.
"""

import contextlib
import errno
import hashlib
import json
import math
import mmap
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from remuda.errors import UserError
from remuda.system import disk
from remuda.system.locks import lock

_ROWS_AT_ONCE = 256  # rows gathered before their pages are given back
_SMALL_ROW = 1 << 16  # bytes, below which reading ahead wastes more than it saves


class ImageFile:
    """Images (M, C, H, W) uint8 in a file.

    ``images`` is a tensor of all images whose pages the system reads when they are used. To draw
    random rows, use ``gather``: it reads only these rows, and keeps no pages in memory.
    """

    def __init__(self, path: Path, shape: tuple[int, int, int, int]):
        self.path, self.shape = path, shape
        self.images, _ = self._map()
        self._rows, self._mapping = self._map()
        if math.prod(shape[1:]) < _SMALL_ROW:
            _advise(self._mapping, "MADV_RANDOM")

    def _map(self) -> tuple[Tensor, mmap.mmap]:
        with self.path.open("rb") as file:
            # A private copy: PyTorch requires writable memory, but the file must not change.
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        return torch.frombuffer(mapping, dtype=torch.uint8).reshape(self.shape), mapping

    def gather(self, index: Tensor) -> Tensor:
        """Return the images at an index of any shape, (*index, C, H, W)."""
        flat = index.flatten()
        found = torch.empty(len(flat), *self.shape[1:], dtype=torch.uint8)
        for start in range(0, len(flat), _ROWS_AT_ONCE):
            stop = start + _ROWS_AT_ONCE
            torch.index_select(self._rows, 0, flat[start:stop], out=found[start:stop])
            _advise(self._mapping, "MADV_DONTNEED")
        return found.reshape(*index.shape, *self.shape[1:])


def _advise(mapping: mmap.mmap, advice: str) -> None:
    if hasattr(mmap, advice):  # some systems lack some kinds of advice
        mapping.madvise(getattr(mmap, advice))


def obtain(
    key: list[Any], size: int, write: Callable[[Any], dict[str, Any]]
) -> tuple[Path, dict[str, Any]]:
    """Return the file of a key and its description; make both if they do not exist.

    Args:
        key: everything that determines the content.
        size: bytes that the file will have, at most.
        write: writes the content to an open file, and returns the description.
    """
    name = hashlib.sha256(json.dumps(key).encode(errors="surrogateescape")).hexdigest()[:32]
    folder = disk.cache_folder("images")
    path, facts_path = folder / f"{name}.bytes", folder / f"{name}.json"
    with _writing(folder, size):
        folder.mkdir(parents=True, exist_ok=True)
        remedy = "set REMUDA_CACHE to another folder"
        with lock(folder / f".{name}.lock", remedy):  # others wait, then use the same file
            facts = _read(facts_path, path)
            if facts is None:
                facts = _make(path, facts_path, size, write)
    return path, facts


def _make(
    path: Path, facts_path: Path, size: int, write: Callable[[Any], dict[str, Any]]
) -> dict[str, Any]:
    if shutil.disk_usage(path.parent).free < size:
        raise OSError(errno.ENOSPC, "not enough space")
    temporary = path.with_name(f".{path.name}.new")  # a killed process's file is overwritten
    try:
        with temporary.open("wb") as file:
            facts = write(file)
            facts["bytes"] = file.tell()
        disk.sync(temporary)
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    disk.write_text(facts_path, json.dumps(facts))
    disk.sync(path.parent)
    return facts


def _read(facts_path: Path, path: Path) -> dict[str, Any] | None:
    """Return the description of a complete file, or None."""
    try:
        facts = json.loads(facts_path.read_text(encoding="utf-8"))
        return facts if path.stat().st_size == facts["bytes"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextlib.contextmanager
def _writing(folder: Path, size: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write {size / 1e9:.2f} GB of decoded images to {folder} ({error.strerror}): "
            "free some space, or set REMUDA_CACHE to another folder"
        ) from error
