"""Read CIFAR-10 and CIFAR-100 in the binary or the Python layout.

The Python layout is a pickle, and loading a pickle can run arbitrary code. The unpickler in this
module accepts only the few names that the published files use.
"""

import codecs
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from remuda.errors import UserError

_PIXELS = 3 * 32 * 32  # bytes per image
_REMEDY = "replace it with a good copy, or delete the folder to download it again"

# NumPy moved _reconstruct from numpy.core to numpy._core. Every array refers to the right one.
_RECONSTRUCT = np.empty(0).__reduce__()[0]
_ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): codecs.encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"it refers to {module_name}.{global_name}")
        return _ADMITTED[module_name, global_name]


def read_binary(
    paths: Sequence[Path], label_bytes: int, num_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return images (M, 3, 32, 32) and labels (M,) from .bin files.

    If a record has several label bytes, the last one is the class.
    """
    record_size = label_bytes + _PIXELS
    parts = []
    for path in paths:
        raw = np.frombuffer(_read(path), np.uint8)
        if raw.size == 0 or raw.size % record_size:
            raise UserError(
                f"{path} is truncated: its {raw.size} bytes are not whole records of "
                f"{record_size} bytes; {_REMEDY}"
            )
        parts.append(raw.reshape(-1, record_size))
        _check_labels(path, parts[-1][:, label_bytes - 1], num_classes)
    records = np.concatenate(parts)
    images = np.ascontiguousarray(records[:, label_bytes:]).reshape(-1, 3, 32, 32)
    return images, records[:, label_bytes - 1].astype(np.int64)


def read_python(
    paths: Sequence[Path], label_key: str, num_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return images (M, 3, 32, 32) and labels (M,) from pickled batches."""
    images, labels = [], []
    for path in paths:
        batch = _unpickle(path)
        pixels, classes = batch.get("data"), batch.get(label_key)
        if not _is_pixels(pixels):
            raise UserError(f'{path} has no uint8 array "data" of {_PIXELS} columns: {_REMEDY}')
        if not _is_labels(classes, len(pixels)):
            raise UserError(
                f'{path} has no list "{label_key}" with a label for each image: {_REMEDY}'
            )
        _check_labels(path, np.array(classes), num_classes)
        images.append(pixels.reshape(-1, 3, 32, 32))
        labels.extend(classes)
    return np.concatenate(images), np.array(labels, dtype=np.int64)


def read_names(path: Path, key: str) -> tuple[str, ...]:
    """Return the class names from a text file, one per line, or from list `key` of a pickle."""
    if path.suffix == ".txt":
        return tuple(_read(path).decode("utf-8", errors="replace").split())
    names = _unpickle(path).get(key)
    if not isinstance(names, list):
        raise UserError(f'{path} has no list "{key}" of class names: {_REMEDY}')
    return tuple(_text(name) for name in names)


def _unpickle(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            batch = _Unpickler(file, encoding="bytes").load()
    except Exception as error:  # a broken pickle can raise almost any exception
        raise UserError(
            f"{path} is not a CIFAR file that can be read safely ({error}): {_REMEDY}"
        ) from error
    if not isinstance(batch, dict):
        raise UserError(f"{path} contains a {type(batch).__name__}, not a dict: {_REMEDY}")
    return {_text(key): value for key, value in batch.items()}


def _text(value: Any) -> str:
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)


def _is_pixels(value: Any) -> TypeGuard[np.ndarray]:
    is_bytes = isinstance(value, np.ndarray) and value.dtype == np.uint8
    return is_bytes and value.shape[1:] == (_PIXELS,)


def _is_labels(value: Any, count: int) -> TypeGuard[list[int]]:
    is_list = isinstance(value, list) and len(value) == count
    return is_list and all(isinstance(label, int) for label in value)


def _check_labels(path: Path, labels: np.ndarray, num_classes: int) -> None:
    if labels.size == 0:
        raise UserError(f"{path} contains no images: {_REMEDY}")
    if labels.min() < 0 or labels.max() >= num_classes:
        wrong = labels[(labels < 0) | (labels >= num_classes)][0]
        raise UserError(
            f"{path} contains the label {wrong}, outside 0 to {num_classes - 1}: {_REMEDY}"
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror}): check its permissions") from error
