"""The IDX format of MNIST and Fashion-MNIST: a magic number, the sizes, then the bytes; plain or gzipped."""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from remuda.errors import UserError

_GZIP = b"\x1f\x8b"
_UNSIGNED_BYTE = 0x08
_REMEDY = "delete it to have it fetched again, or put a good copy in its place"


def content(path: Path) -> bytes:
    """The file's bytes, decompressed where they are gzipped.

    The first bytes tell, not the name: proxies like to decompress a .gz and leave its name.
    """
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if raw.startswith(_GZIP) else raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(
            f"{path} is a truncated or corrupt gzip file ({error}): {_REMEDY}"
        ) from error
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}): check its permissions"
        ) from error


def read_idx(path: Path, num_dims: int) -> np.ndarray:
    """The uint8 array in an IDX file of num_dims dimensions; labels have one, images three."""
    raw = content(path)
    header = 4 + 4 * num_dims
    if len(raw) < header:
        raise UserError(
            f"{path} is truncated, with {len(raw)} bytes of a header of {header}: {_REMEDY}"
        )
    (magic,) = struct.unpack(">I", raw[:4])
    wanted = _UNSIGNED_BYTE << 8 | num_dims
    if magic != wanted:
        raise UserError(
            f"{path} is not the IDX file it should be, its magic number is {magic:#010x} instead of "
            f"{wanted:#010x}: {_REMEDY}"
        )
    sizes = struct.unpack(f">{num_dims}I", raw[4:header])
    found, expected = len(raw) - header, math.prod(sizes)
    if found != expected:
        trouble = "is truncated" if found < expected else "has bytes after its end"
        shape = " x ".join(map(str, sizes))
        raise UserError(
            f"{path} {trouble}, {found} bytes where {shape} = {expected} belong: {_REMEDY}"
        )
    return np.frombuffer(raw, np.uint8, offset=header).reshape(sizes)


def read_pair(
    images_path: Path, labels_path: Path, num_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Images (M, 1, H, W) and labels (M,), checked against each other."""
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise UserError(
            f"{images_path} holds {len(images)} images but {labels_path} holds {len(labels)} labels: "
            "take both from one copy of the data set"
        )
    if images.size == 0:
        raise UserError(f"{images_path} holds no images: {_REMEDY}")
    if labels.max() >= num_classes:
        raise UserError(
            f"{labels_path} holds the label {labels.max()}, above {num_classes - 1}: {_REMEDY}"
        )
    return images[:, None], labels.astype(np.int64)
