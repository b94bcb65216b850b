"""Write and read shards: safetensors files that each hold the rows of one process.

Every shard describes itself. The entry ``__metadata__`` of its header contains two texts:

sha256    the digest of the file, computed with 64 zeros in this place
remuda    a JSON object: the format, the round, and which rows of which members the shard holds

A shard is written under a temporary name, synced and renamed, so it is complete or absent. This
module needs no PyTorch.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from remuda.system import disk

FORMAT = 3
ZEROS = b"0" * 64
PIECE = 1 << 22  # bytes to hash and write at a time; other threads run meanwhile
LENGTH = 8  # bytes at the start of a file that give the length of the header


class Tensor(NamedTuple):
    """The place of a tensor in a shard."""

    name: str
    dtype: str  # as safetensors writes it, such as F32
    shape: tuple[int, ...]
    start: int  # of its bytes, counted from the start of the data
    stop: int


class Header(NamedTuple):
    """The header of a safetensors file."""

    description: dict[str, Any]  # empty if remuda did not write the file as a shard
    sha256: str
    tensors: dict[str, Tensor]
    start: int  # position of the data in the file


def file_name(number: int, num_shards: int) -> str:
    """Return the name of a shard's file."""
    return f"shard-{number:03d}-of-{num_shards:03d}.safetensors"


def parse_name(name: str) -> tuple[int, int] | None:
    """Return a shard's number and the number of shards; None if this is not a shard's name."""
    match = re.fullmatch(r"shard-(\d{3,})-of-(\d{3,})\.safetensors", name)
    return (int(match[1]), int(match[2])) if match else None


def temporary(path: Path) -> Path:
    """Return the name of a shard's file while it is being written."""
    return path.with_name(f".{path.name}")


def write(
    path: Path, description: dict[str, Any], tensors: Sequence[Tensor], data: Iterable[memoryview]
) -> None:
    """Write a shard whose data are these bytes; leave nothing behind if that fails."""
    header = _encode(description, tensors)
    unfinished = temporary(path)
    try:
        with unfinished.open("wb") as file, ThreadPoolExecutor(1) as hashing:
            digest = hashlib.sha256(header)
            file.write(header)
            for chunk in data:
                for start in range(0, len(chunk), PIECE):
                    piece = chunk[start : start + PIECE]
                    hashed = hashing.submit(digest.update, piece)
                    file.write(piece)
                    hashed.result()
            file.flush()
            os.pwrite(file.fileno(), digest.hexdigest().encode(), header.index(ZEROS))
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    disk.sync(path.parent)


def _encode(description: dict[str, Any], tensors: Sequence[Tensor]) -> bytes:
    # The digest comes first, so that the first 64 zeros are its place.
    metadata = {
        "sha256": ZEROS.decode(),
        "remuda": json.dumps({"format": FORMAT, **description}),
    }
    content: dict[str, Any] = {"__metadata__": metadata}
    for tensor in tensors:
        content[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "data_offsets": [tensor.start, tensor.stop],
        }
    text = json.dumps(content, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data start at a multiple of 8 bytes
    return len(text).to_bytes(LENGTH, "little") + text


def read_header(path: Path) -> Header:
    """Read the header of a safetensors file; raise OSError or ValueError if it is damaged."""
    raw = _raw_header(path)
    try:
        content = json.loads(raw[LENGTH:])
        metadata = content.pop("__metadata__", {})
        description = json.loads(metadata.get("remuda", "{}"))
        tensors = {
            name: Tensor(name, entry["dtype"], tuple(entry["shape"]), *entry["data_offsets"])
            for name, entry in content.items()
        }
        return Header(description, metadata.get("sha256", ""), tensors, len(raw))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its header is damaged: {error}") from None


def _raw_header(path: Path) -> bytes:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = file.read(LENGTH)
        end = LENGTH + int.from_bytes(length, "little")
        if len(length) < LENGTH or end > size:
            raise ValueError("its header is incomplete")
        return length + file.read(end - LENGTH)


def is_intact(path: Path, sha256: str) -> bool:
    """Return whether a shard has the digest that its header promises."""
    header = _raw_header(path)
    with path.open("rb") as file:
        file.seek(len(header))
        digest = hashlib.sha256(header.replace(sha256.encode(), ZEROS, 1))
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest() == sha256
