import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from remuda.data import DataConfig, load
from remuda.data.batches import Batches
from remuda.data.prefetch import Prefetcher
from remuda.data.storage import ImageFile
from remuda.errors import UserError
from remuda.system import disk

from .samples import write_image


@pytest.fixture
def root(tmp_path) -> Path:
    """Return a folder of random images in three classes."""
    draw = np.random.default_rng(0)
    for label in "abc":
        for i in range(30):
            path = tmp_path / "root" / label / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(draw.integers(0, 256, (6, 8, 3), dtype=np.uint8)).save(path)
    return tmp_path / "root"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("REMUDA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "images"


def _load(root: Path, **values):
    return load(DataConfig(name=f"folder:{root}", **{"storage": "disk", **values}))


def _files(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if not path.name.endswith(".lock"))


def test_images_on_disk_equal_those_in_memory(root):
    here, there = _load(root, storage="memory"), _load(root)
    assert here.file is None and there.file is not None
    assert torch.equal(here.images, there.images) and torch.equal(here.labels, there.labels)
    index = torch.tensor([[3, 3], [89, 0]])
    assert torch.equal(there.file.gather(index), here.images[index])
    every = torch.arange(90).repeat(7)  # more than are gathered at once
    assert torch.equal(there.file.gather(every), here.images[every])


def test_the_file_is_used_again(root, cache, monkeypatch):
    first = _load(root).images.clone()
    (name,) = [name for name in _files(cache) if name.endswith(".bytes")]
    stamp = (cache / name).stat().st_mtime_ns
    monkeypatch.setattr("remuda.data.folder.decode_all", None)  # nothing is decoded
    assert torch.equal(_load(root).images, first)
    assert (cache / name).stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    "change",
    [
        lambda root: write_image(root / "a" / "0.png", (8, 6), colour=(1, 2, 3)),
        lambda root: write_image(root / "a" / "new.png", (8, 6)),
        lambda root: (root / "a" / "0.png").unlink(),
        lambda root: (root / "a" / "0.png").rename(root / "b" / "x.png"),
    ],
)
def test_changed_files_are_decoded_again(root, change):
    _load(root)
    change(root)
    assert torch.equal(_load(root).images, _load(root, storage="memory").images)


@pytest.mark.parametrize(
    "settings",
    [
        {"size": 4},
        {"size": (4, 6)},
        {"size": 4, "fit": "pad"},
        {"size": 4, "fit": "pad", "background": "white"},
        {"size": 4, "filter": "bicubic"},
        {"channels": 1},
        {"limit": 5},
        {"classes": ("c",)},
    ],
)
def test_other_settings_have_their_own_file(root, settings):
    _load(root)
    found, expected = _load(root, **settings), _load(root, storage="memory", **settings)
    assert torch.equal(found.images, expected.images)
    assert torch.equal(found.labels, expected.labels) and found.classes == expected.classes


def test_damaged_files_are_made_again(root, cache):
    expected = _load(root).images.clone()
    (facts, data) = sorted(
        (cache / name for name in _files(cache)), key=lambda path: -ord(path.suffix[1])
    )
    for damage in (
        lambda: data.write_bytes(data.read_bytes()[:-1]),
        lambda: data.unlink(),
        lambda: facts.write_text("{"),
        lambda: facts.write_text("[]"),
        lambda: facts.unlink(),
        lambda: data.with_name(f".{data.name}.new").write_bytes(b"left by a killed process"),
    ):
        damage()
        assert torch.equal(_load(root).images, expected)
    data.unlink()
    _load(root)
    assert len(_files(cache)) == 2


def test_the_images_of_a_file_cannot_be_changed(root):
    found = _load(root)
    before = found.images[0].clone()
    found.images[0] = 0
    assert torch.equal(_load(root).images[0], before)


def test_a_full_disk(root, cache, monkeypatch):
    message = r"cannot write 0.00 GB of decoded images to .* \(.*space.*\): free some space, or set"
    with monkeypatch.context() as patch:
        patch.setattr("remuda.data.storage.shutil.disk_usage", lambda path: _Usage())
        with pytest.raises(UserError, match=message):
            _load(root)

    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync", full)
        with pytest.raises(UserError, match=message):
            _load(root)
    assert _files(cache) == [], "no partial file is left"
    assert len(_load(root).images) == 90


class _Usage:
    free = 0


def test_a_cache_that_cannot_be_written(root, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REMUDA_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"Not a directory\): free some space, or set REMUDA_CACHE"):
        _load(root)


def test_several_processes_make_one_file(root, cache):
    code = (
        "import sys, hashlib; from remuda.data import DataConfig, load;"
        "data = load(DataConfig(name=f'folder:{sys.argv[1]}', storage='disk'));"
        "print(hashlib.sha256(data.images.numpy().tobytes()).hexdigest())"
    )
    command = [sys.executable, "-c", code, str(root)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    digests = {process.communicate()[0] for process in started}
    assert len(digests) == 1 and all(process.returncode == 0 for process in started)
    assert len(_files(cache)) == 2


def test_data_sets_of_the_package_stay_in_memory():
    with pytest.raises(UserError, match=r"digits is always in memory: leave data.storage at auto"):
        load(DataConfig(name="digits", storage="disk"))


# Batches


@settings(max_examples=25, deadline=None)
@given(
    batch_size=st.integers(1, 9),
    mirror=st.booleans(),
    seed=st.integers(0, 3),
    requests=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 3)), min_size=1, max_size=5),
)
def test_batches_from_disk_are_the_same(tmp_path_factory, batch_size, mirror, seed, requests):
    images = torch.arange(60, dtype=torch.uint8).reshape(20, 1, 1, 3)
    path = tmp_path_factory.mktemp("images") / "x.bytes"
    path.write_bytes(images.numpy().tobytes())
    here = _dataset(images, None)
    there = _dataset(images, ImageFile(path, (20, 1, 1, 3)))
    shares = [torch.arange(0, 20, 2), torch.arange(5), torch.arange(20)]
    options = dict(members=[0, 2], batch_size=batch_size, seed=seed, mirror=mirror)
    one, two = Batches(here, shares, **options), Batches(there, shares, **options)
    for first, count in requests:
        a, b = one.draw(first, count), two.draw(first, count)
        assert torch.equal(a.images, b.images) and torch.equal(a.labels, b.labels)
    a, b = one.draw_row(1, 3, 2), two.draw_row(1, 3, 2)
    assert torch.equal(a.images, b.images) and torch.equal(a.labels, b.labels)


def _dataset(images, file):
    from remuda.data import Dataset

    labels = torch.arange(len(images)) % 3
    return Dataset("toy", images if file is None else file.images, labels, ("a", "b", "c"), 0, file)


def test_the_next_answer_is_prepared():
    answered = []

    def answer(request: int) -> int:
        answered.append(request)
        return 10 * request

    ahead = Prefetcher(answer, lambda request: request + 1, capacity=2)
    assert [ahead.get(i) for i in (1, 2, 3, 7, 4)] == [10, 20, 30, 70, 40]
    ahead._pool.shutdown()
    assert sorted(answered) == [1, 2, 3, 4, 5, 7, 8], "4 was prepared and kept"


def test_an_error_while_preparing_is_raised_when_it_matters():
    def answer(request: int) -> int:
        return 1 // (2 - request)

    ahead = Prefetcher(answer, lambda request: request + 1, capacity=1)
    assert ahead.get(1) == 1
    with pytest.raises(ZeroDivisionError):
        ahead.get(2)
