import os
import pickle
import struct

import numpy as np
import pytest

from remuda.data import DataConfig, load
from remuda.data.cifar import read_binary, read_names, read_python
from remuda.errors import UserError

from .samples import cifar_records, write_cifar10_binary, write_cifar_python


def test_binary_files_are_joined_in_order(tmp_path):
    records = cifar_records(7)
    (tmp_path / "a.bin").write_bytes(records[:4].tobytes())
    (tmp_path / "b.bin").write_bytes(records[4:].tobytes())
    images, labels = read_binary([tmp_path / "a.bin", tmp_path / "b.bin"], 1, 10)
    assert np.array_equal(images, records[:, 1:].reshape(-1, 3, 32, 32))
    assert labels.tolist() == list(range(7))


def test_the_fine_label_is_the_second_byte(tmp_path):
    records = cifar_records(100, label_bytes=2, num_classes=100)
    records[:, 0] = 19  # the coarse label
    (tmp_path / "train.bin").write_bytes(records.tobytes())
    assert read_binary([tmp_path / "train.bin"], 2, 100)[1].tolist() == list(range(100))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (cifar_records(2).tobytes()[:-1], "is truncated: its 6145 bytes"),
        (b"", "is truncated: its 0 bytes"),
        (bytes([10]) + bytes(3072), "contains the label 10, outside 0 to 9"),
    ],
)
def test_the_message_names_a_bad_binary_file(tmp_path, raw, message):
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(raw)
    with pytest.raises(UserError, match=message) as caught:
        read_binary([path], 1, 10)
    assert str(path) in str(caught.value)


def _python2_batch(records: np.ndarray) -> bytes:
    """Return a batch as Python 2 pickled the published ones.

    Its strings are bytes, and numpy's module has its old name.
    """

    def string(raw: bytes) -> bytes:
        return b"T" + struct.pack("<I", len(raw)) + raw

    def integer(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    count = len(records)
    dtype = b"cnumpy\ndtype\n(" + string(b"u1") + integer(0) + integer(1) + b"tR("
    dtype += integer(3) + string(b"|") + b"NNN" + integer(-1) + integer(-1) + integer(0) + b"tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n("
    array += integer(0) + b"t" + string(b"b") + b"tR("
    array += integer(1) + b"(" + integer(count) + integer(3072) + b"t" + dtype + b"\x89"
    array += string(records[:, 1:].tobytes()) + b"tb"
    labels = b"(" + b"".join(integer(int(label)) for label in records[:, 0]) + b"l"
    return b"\x80\x02}(" + string(b"data") + array + string(b"labels") + labels + b"u."


def test_reads_what_python_2_wrote(tmp_path):
    records = cifar_records(5)
    (tmp_path / "data_batch_1").write_bytes(_python2_batch(records))
    images, labels = read_python([tmp_path / "data_batch_1"], "labels", 10)
    assert np.array_equal(images, records[:, 1:].reshape(-1, 3, 32, 32))
    assert labels.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("as_bytes", [True, False])
def test_reads_what_python_3_wrote(tmp_path, protocol, as_bytes):
    records = cifar_records(3)
    batch = {"data": records[:, 1:], "labels": [0, 1, 2]}
    if as_bytes:
        batch = {key.encode(): value for key, value in batch.items()}
    (tmp_path / "b").write_bytes(pickle.dumps(batch, protocol=protocol))
    images, _ = read_python([tmp_path / "b"], "labels", 10)
    assert np.array_equal(images.reshape(3, -1), records[:, 1:])


class _Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_runs_code_is_refused(tmp_path):
    (tmp_path / "b").write_bytes(pickle.dumps({"data": _Touch(tmp_path / "harm"), "labels": []}))
    with pytest.raises(UserError, match=r"read safely .it refers to posix.mkdir"):
        read_python([tmp_path / "b"], "labels", 10)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "contains a list, not a dict"),
        ({"labels": [1]}, 'no uint8 array "data"'),
        ({"data": np.zeros((2, 3072))}, 'no uint8 array "data"'),
        ({"data": np.zeros((2, 99), np.uint8)}, 'no uint8 array "data"'),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [1]}, 'no list "labels"'),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": ["cat"]}, 'no list "labels"'),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": [-1]}, "contains the label -1"),
        ({"data": np.zeros((0, 3072), np.uint8), "labels": []}, "contains no images"),
    ],
)
def test_the_message_names_a_bad_batch(tmp_path, content, message):
    (tmp_path / "b").write_bytes(pickle.dumps(content, protocol=4))
    with pytest.raises(UserError, match=message):
        read_python([tmp_path / "b"], "labels", 10)


@pytest.mark.parametrize("raw", [b"", b"junk", pickle.dumps({"data": 1})[:-3]])
def test_the_message_names_a_broken_pickle(tmp_path, raw):
    (tmp_path / "b").write_bytes(raw)
    with pytest.raises(UserError, match="read safely"):
        read_python([tmp_path / "b"], "labels", 10)


def test_names_of_both_layouts(tmp_path):
    (tmp_path / "batches.meta.txt").write_text("cat\ndog\n\n")
    (tmp_path / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"cat", b"dog"]}))
    for name in ("batches.meta.txt", "batches.meta"):
        assert read_names(tmp_path / name, "label_names") == ("cat", "dog")
    with pytest.raises(UserError, match='no list "fine_label_names"'):
        read_names(tmp_path / "batches.meta", "fine_label_names")


def test_loads_cifar10_in_both_layouts(tmp_path):
    write_cifar10_binary(tmp_path / "bin" / "cifar-10-batches-bin")
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        path = tmp_path / "py" / "cifar-10-batches-py" / name
        write_cifar_python(path, cifar_records(10), "labels")
    binary = load(DataConfig(name="cifar10", path=str(tmp_path / "bin")))
    python = load(DataConfig(name="cifar10", path=str(tmp_path / "py")))
    assert binary.shape == (3, 32, 32) and binary.counts == [5] * 10 and binary.classes[3] == "cat"
    assert (binary.images == python.images).all() and (binary.labels == python.labels).all()
    assert len(load(DataConfig(name="cifar10", path=str(tmp_path / "py")), "test").labels) == 10


def test_loads_cifar100_with_and_without_names(tmp_path):
    records = cifar_records(100, label_bytes=2, num_classes=100)
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    (folder / "train.bin").write_bytes(records.tobytes())
    config = DataConfig(name="cifar100", path=str(tmp_path))
    assert load(config).classes[42] == "class 42"
    (folder / "fine_label_names.txt").write_text("\n".join(f"thing{i}" for i in range(100)))
    assert load(config).classes[42] == "thing42"
    (folder / "fine_label_names.txt").write_text("apple\n")
    with pytest.raises(UserError, match="names 1 classes instead of 100"):
        load(config)
    write_cifar_python(tmp_path / "py" / "cifar-100-python" / "train", records, "fine_labels", 2)
    assert load(DataConfig(name="cifar100", path=str(tmp_path / "py"))).counts == [1] * 100
