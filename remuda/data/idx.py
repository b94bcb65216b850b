"""Read the IDX format of MNIST and Fashion-MNIST, plain or gzipped.

An IDX file contains a magic number, the size of each dimension, and then the data bytes.
"""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from remuda.errors import UserError

_GZIP = b"\x1f\x8b"  # the first bytes of a gzip file
_UNSIGNED_BYTE = 0x08  # IDX code of the data type
_REMEDY = "delete it to download it again, or replace it with a good copy"


def content(path: Path) -> bytes:
    """Return the file's bytes, decompressed if they are gzipped.

    Check the first bytes, not the name: some proxies decompress a .gz file but keep its name.
    """
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if raw.startswith(_GZIP) else raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(
            f"{path} is a truncated or corrupt gzip file ({error}): {_REMEDY}"
        ) from error
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror}): check its permissions") from error


def read_idx(path: Path, num_dims: int) -> np.ndarray:
    """Return the uint8 array of an IDX file; labels have one dimension, images have three."""
    raw = content(path)
    header = 4 + 4 * num_dims
    if len(raw) < header:
        raise UserError(
            f"{path} is truncated: it has {len(raw)} bytes, but its header needs {header}; "
            f"{_REMEDY}"
        )
    (magic,) = struct.unpack(">I", raw[:4])
    expected_magic = _UNSIGNED_BYTE << 8 | num_dims
    if magic != expected_magic:
        raise UserError(
            f"{path} is not the expected IDX file: its magic number is {magic:#010x} instead of "
            f"{expected_magic:#010x}; {_REMEDY}"
        )
    sizes = struct.unpack(f">{num_dims}I", raw[4:header])
    found, expected = len(raw) - header, math.prod(sizes)
    if found != expected:
        problem = "is truncated" if found < expected else "has extra bytes at its end"
        shape = " x ".join(map(str, sizes))
        raise UserError(
            f"{path} {problem}: it has {found} bytes instead of {shape} = {expected}; {_REMEDY}"
        )
    return np.frombuffer(raw, np.uint8, offset=header).reshape(sizes)


def read_pair(
    images_path: Path, labels_path: Path, num_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return images (M, 1, H, W) and labels (M,), and check that they belong together."""
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise UserError(
            f"{images_path} has {len(images)} images, but {labels_path} has {len(labels)} "
            "labels: take both files from the same copy of the data set"
        )
    if images.size == 0:
        raise UserError(f"{images_path} contains no images: {_REMEDY}")
    if labels.max() >= num_classes:
        raise UserError(
            f"{labels_path} contains the label {labels.max()}, above {num_classes - 1}: {_REMEDY}"
        )
    return images[:, None], labels.astype(np.int64)
