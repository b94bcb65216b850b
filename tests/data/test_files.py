import gzip
import hashlib
import io
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from remuda.data import DataConfig, load
from remuda.data.files import Found, data_folders, locate, obtain
from remuda.data.sources import SOURCES
from remuda.errors import UserError

from .samples import idx_bytes, write_cifar10_binary, write_idx

_CLOSED = ("http://127.0.0.1:9/",)  # the discard port, where no server listens


def _offline(name: str):
    return replace(SOURCES[name], mirrors=_CLOSED)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("mnist", "mnist"),
        ("mnist", "MNIST/raw"),
        ("mnist", "."),
        ("fashion-mnist", "fashion-mnist"),
        ("fashion-mnist", "FashionMNIST/raw"),
        ("fashion-mnist", "."),
    ],
)
@pytest.mark.parametrize("gzipped", [True, False])
def test_idx_layouts_need_only_the_requested_split(tmp_path, name, place, gzipped):
    write_idx(tmp_path / place, "train", gzipped=gzipped)
    found = locate(SOURCES[name], "train", [tmp_path])
    assert found is not None and found.folder == tmp_path / place
    assert locate(SOURCES[name], "test", [tmp_path]) is None


@pytest.mark.parametrize("place", ["cifar-10-batches-bin", "."])
def test_cifar_layouts(tmp_path, place):
    write_cifar10_binary(tmp_path / place)
    found = locate(SOURCES["cifar10"], "train", [tmp_path])
    assert found is not None and found.kind == "binary" and len(found.paths) == 5
    (tmp_path / place / "data_batch_3.bin").unlink()
    assert locate(SOURCES["cifar10"], "train", [tmp_path]) is None
    assert locate(SOURCES["cifar10"], "test", [tmp_path]) is not None


def test_a_folder_named_train_is_not_cifar100(tmp_path):
    (tmp_path / "train").mkdir()
    assert locate(SOURCES["cifar100"], "train", [tmp_path]) is None


def test_search_order(tmp_path, monkeypatch):
    cache = tmp_path / "cache" / "remuda"
    assert data_folders(DataConfig()) == [cache]
    monkeypatch.setenv("REMUDA_DATA", str(tmp_path / "shared"))
    assert data_folders(DataConfig()) == [tmp_path / "shared", cache]
    assert data_folders(DataConfig(path="~/x")) == [Path.home() / "x"]
    write_idx(cache / "mnist", "train", value=1)
    assert load(DataConfig(name="mnist")).images.max() == 1
    write_idx(tmp_path / "shared" / "mnist", "train", value=2)
    assert load(DataConfig(name="mnist")).images.max() == 2


def test_only_data_path_is_searched_if_it_is_set(tmp_path):
    write_idx(tmp_path / "cache" / "remuda" / "mnist", "train")
    with pytest.raises(UserError, match="mnist is not in"):
        obtain(_offline("mnist"), "train", DataConfig(name="mnist", path=str(tmp_path / "empty")))


def test_files_of_the_other_data_set_are_skipped(tmp_path):
    write_idx(tmp_path, "train")
    labels = gzip.decompress((tmp_path / "train-labels-idx1-ubyte.gz").read_bytes())
    known = replace(SOURCES["mnist"], foreign_labels=frozenset({hashlib.md5(labels).hexdigest()}))
    assert locate(known, "train", [tmp_path]) is None
    (tmp_path / "train-labels-idx1-ubyte.gz").rename(tmp_path / "old.gz")
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(labels[:-1] + b"\x05")
    assert locate(known, "train", [tmp_path]) is not None


def test_real_mnist_is_not_mistaken_for_fashion_mnist(real_path):
    folder = Path(real_path("mnist")) / "mnist"
    if not folder.is_dir():
        pytest.skip("REMUDA_DATA has mnist in another layout")
    assert locate(SOURCES["mnist"], "train", [folder]) is not None
    assert locate(SOURCES["fashion-mnist"], "train", [folder]) is None


def _archive(path: Path, top: str, names: list[str]) -> str:
    """Write a tar archive of black images, one per file, and return its MD5."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            member = tarfile.TarInfo(f"{top}/{name}" if top else name)
            member.size = 3073
            tar.addfile(member, io.BytesIO(bytes(3073)))
    return hashlib.md5(path.read_bytes()).hexdigest()


_BATCHES = [f"data_batch_{i}.bin" for i in range(1, 6)]


@pytest.mark.parametrize("place", [".", "cifar10"])
def test_an_archive_in_the_data_folder_is_unpacked(tmp_path, place):
    source = _offline("cifar10")
    package = source.archives[0]
    md5 = _archive(tmp_path / place / package.file, package.folder, [*_BATCHES, "test_batch.bin"])
    source = replace(source, archives=(replace(package, md5=md5),))
    found = obtain(source, "train", DataConfig(path=str(tmp_path)))
    assert found == Found("binary", tuple(tmp_path / package.folder / name for name in _BATCHES))
    assert (tmp_path / place / package.file).exists()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == [".cifar10.lock"]


def test_bad_archives(tmp_path):
    source = _offline("cifar10")
    package = source.archives[0]
    config = DataConfig(path=str(tmp_path))
    md5 = _archive(tmp_path / package.file, "elsewhere", _BATCHES)
    with pytest.raises(UserError, match="is damaged: its MD5 is"):
        obtain(source, "train", config)
    source = replace(source, archives=(replace(package, md5=md5),))
    with pytest.raises(UserError, match="has no folder cifar-10-batches-bin"):
        obtain(source, "train", config)
    md5 = _archive(tmp_path / package.file, "", ["../escaped.bin"])
    source = replace(source, archives=(replace(package, md5=md5),))
    with pytest.raises(UserError, match="cannot unpack"):
        obtain(source, "train", config)
    assert not (tmp_path.parent / "escaped.bin").exists()
    md5 = _archive(tmp_path / package.file, package.folder, _BATCHES[:3])
    source = replace(source, archives=(replace(package, md5=md5),))
    with pytest.raises(UserError, match=r"the train split of .* is incomplete"):
        obtain(source, "train", config)


def test_without_a_network_the_message_says_which_files_to_put_where(tmp_path):
    config = DataConfig(path=str(tmp_path))
    with pytest.raises(UserError) as caught:
        obtain(_offline("mnist"), "test", config)
    text = str(caught.value)
    wanted = "mnist/t10k-images-idx3-ubyte.gz and mnist/t10k-labels-idx1-ubyte.gz"
    assert f"put {wanted} into {tmp_path}" in text
    assert "Connection refused" in text
    with pytest.raises(UserError, match=f"put cifar-100-binary.tar.gz into {tmp_path}"):
        obtain(_offline("cifar100"), "train", config)


def test_no_writable_folder(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match=r"no files can be written there: set data.path"):
        obtain(_offline("mnist"), "train", DataConfig(path=str(tmp_path / "file" / "data")))


def test_the_message_names_files_that_do_not_belong_together(tmp_path):
    write_idx(tmp_path / "mnist", "train", gzipped=False)
    path = tmp_path / "mnist" / "train-labels-idx1-ubyte"
    path.write_bytes(idx_bytes(np.arange(3)))
    with pytest.raises(UserError, match=r"has 20 images, but .* has 3 labels"):
        load(DataConfig(name="mnist", path=str(tmp_path)))
    if os.geteuid() != 0:
        path.chmod(0)
        with pytest.raises(UserError, match="cannot read"):
            load(DataConfig(name="mnist", path=str(tmp_path)))
