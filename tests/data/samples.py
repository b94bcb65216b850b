"""Write small files in the formats of the data sets."""

import gzip
import io
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image


def idx_bytes(array: np.ndarray) -> bytes:
    header = struct.pack(f">I{array.ndim}I", 0x0800 | array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx(
    folder: Path, prefix: str, count: int = 20, *, gzipped: bool = True, value: int = 7
) -> None:
    """Write an images and a labels file; all pixels have one value, and the labels cycle."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        f"{prefix}-images-idx3-ubyte": idx_bytes(np.full((count, 4, 4), value)),
        f"{prefix}-labels-idx1-ubyte": idx_bytes(np.arange(count) % 10),
    }
    for name, raw in files.items():
        path = folder / (f"{name}.gz" if gzipped else name)
        path.write_bytes(gzip.compress(raw) if gzipped else raw)


def cifar_records(count: int, label_bytes: int = 1, num_classes: int = 10) -> np.ndarray:
    """Return records of labels and pixels; the last label byte cycles, the pixels are random."""
    records = np.random.default_rng(0).integers(0, 256, (count, label_bytes + 3072), dtype=np.uint8)
    records[:, :label_bytes] = 0
    records[:, label_bytes - 1] = np.arange(count) % num_classes
    return records


def write_cifar10_binary(folder: Path, count: int = 10) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        (folder / f"{name}.bin").write_bytes(cifar_records(count).tobytes())


def write_cifar_python(
    path: Path, records: np.ndarray, label_key: str, label_bytes: int = 1
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    labels = records[:, label_bytes - 1].tolist()
    batch = {
        "data": records[:, label_bytes:],
        label_key: labels,
        "filenames": ["a.png"] * len(labels),
    }
    path.write_bytes(pickle.dumps(batch, protocol=2))


def write_image(
    path: Path, size: tuple[int, int] = (8, 8), mode: str = "RGB", colour: object = 0
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)  # type: ignore[arg-type]


def image_bytes(
    size: tuple[int, int] = (8, 8), mode: str = "RGB", colour: object = 0, form: str = "PNG"
) -> bytes:
    """Return the content of an image file."""
    file = io.BytesIO()
    Image.new(mode, size, colour).save(file, form)  # type: ignore[arg-type]
    return file.getvalue()


def write_zip(path: Path, files: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, raw in files.items():
            archive.writestr(name, raw)


def write_tar(path: Path, files: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, raw in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
