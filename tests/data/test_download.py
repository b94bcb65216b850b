"""Download from a server in this process."""

import errno
import hashlib
import io
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from remuda.data import DataConfig, load
from remuda.data.files import obtain
from remuda.data.sources import SOURCES, Package, Source
from remuda.errors import UserError
from remuda.system import progress

from .samples import cifar_records, write_idx

_FILES = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")


@dataclass
class Site:
    """Hold the files of the server and the requests that it received."""

    files: dict[str, bytes] = field(default_factory=dict)
    truncated: set[str] = field(default_factory=set)
    delay: float = 0.0  # seconds, in the middle of each file
    requests: list[str] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.requests.append(self.path)
            raw = site.files.get(self.path)
            if raw is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            half = len(raw) // 2
            self.wfile.write(raw[:half])
            self.wfile.flush()
            time.sleep(site.delay)
            if self.path not in site.truncated:
                self.wfile.write(raw[half:])

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}"
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


def _md5(raw: bytes) -> str:
    return hashlib.md5(raw).hexdigest()


def _publish_mnist(site: Site, tmp_path: Path, *prefixes: str) -> Source:
    """Put small MNIST training files on the site under each prefix; return their source."""
    write_idx(tmp_path / "origin", "train")
    contents = {name: (tmp_path / "origin" / name).read_bytes() for name in _FILES}
    for prefix in prefixes:
        site.files |= {f"/{prefix}/{name}": raw for name, raw in contents.items()}
    packages = tuple(Package(name, _md5(raw), "mnist") for name, raw in contents.items())
    mirrors = tuple(f"{site.url}/{prefix}/" for prefix in ("first", "second"))
    return replace(SOURCES["mnist"], mirrors=mirrors, packages={"train": packages, "test": ()})


def _config(tmp_path: Path) -> DataConfig:
    return DataConfig(name="mnist", path=str(tmp_path / "data"))


def _left_over(tmp_path: Path) -> list[str]:
    folder = tmp_path / "data"
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_good_download_is_kept_and_used_again(site, tmp_path):
    source = _publish_mnist(site, tmp_path, "first")
    found = obtain(source, "train", _config(tmp_path))
    assert [path.name for path in found.paths] == list(_FILES)
    assert _left_over(tmp_path) == [".mnist.lock", *(f"mnist/{name}" for name in _FILES)]
    assert obtain(source, "train", _config(tmp_path)) == found and len(site.requests) == 2
    assert load(_config(tmp_path)).counts == [2] * 10


def test_existing_files_are_not_downloaded_again(site, tmp_path):
    source = _publish_mnist(site, tmp_path, "first")
    write_idx(tmp_path / "data" / "mnist", "train", gzipped=False)
    (tmp_path / "data" / "mnist" / "train-labels-idx1-ubyte").unlink()
    obtain(source, "train", _config(tmp_path))
    assert site.requests == [f"/first/{_FILES[1]}"]


def test_a_file_missing_on_the_first_mirror_comes_from_the_second(site, tmp_path):
    obtain(_publish_mnist(site, tmp_path, "second"), "train", _config(tmp_path))
    assert site.requests == [
        f"/{mirror}/{name}" for name in _FILES for mirror in ("first", "second")
    ]


@pytest.mark.parametrize("problem", ["checksum", "truncated"])
def test_a_bad_file_on_the_first_mirror_comes_from_the_second(site, tmp_path, problem):
    source = _publish_mnist(site, tmp_path, "first", "second")
    bad = f"/first/{_FILES[0]}"
    if problem == "checksum":
        site.files[bad] = site.files[bad][::-1]
    else:
        site.truncated.add(bad)
    assert len(obtain(source, "train", _config(tmp_path)).paths) == 2
    assert f"/second/{_FILES[0]}" in site.requests


def test_if_all_mirrors_fail_nothing_is_left_and_the_message_says_why(site, tmp_path):
    source = _publish_mnist(site, tmp_path, "first", "second")
    site.files[f"/first/{_FILES[0]}"] = b"hello"
    site.truncated.add(f"/second/{_FILES[0]}")
    with pytest.raises(UserError) as caught:
        obtain(source, "train", _config(tmp_path))
    text = str(caught.value)
    assert f"{site.url}/first/{_FILES[0]}: its MD5 is {_md5(b'hello')} instead of" in text
    assert "the transfer ended after" in text and "put mnist/train-images-idx3-ubyte.gz" in text
    assert _left_over(tmp_path) == [".mnist.lock"]


def test_a_downloaded_archive_is_unpacked_and_deleted(site, tmp_path):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name in ("train.bin", "test.bin"):
            raw = cifar_records(100, label_bytes=2, num_classes=100).tobytes()
            member = tarfile.TarInfo(f"cifar-100-binary/{name}")
            member.size = len(raw)
            tar.addfile(member, io.BytesIO(raw))
    site.files["/cifar-100-binary.tar.gz"] = stream.getvalue()
    package = replace(SOURCES["cifar100"].packages["train"][0], md5=_md5(stream.getvalue()))
    source = replace(
        SOURCES["cifar100"], mirrors=(f"{site.url}/",), packages={"train": (package,), "test": ()}
    )
    obtain(source, "train", _config(tmp_path))
    assert _left_over(tmp_path) == [
        ".cifar100.lock",
        "cifar-100-binary/test.bin",
        "cifar-100-binary/train.bin",
    ]
    obtain(source, "test", _config(tmp_path))  # was in the same archive
    assert len(site.requests) == 1


def test_remuda_mirror_replaces_the_prefixes(site, tmp_path, monkeypatch):
    source = _publish_mnist(site, tmp_path, "copies/mnist")
    monkeypatch.setenv("REMUDA_MIRROR", f"{site.url}/copies/")
    obtain(source, "train", _config(tmp_path))
    assert site.requests == [f"/copies/mnist/{name}" for name in _FILES]
    monkeypatch.setenv("REMUDA_MIRROR", "example.org/copies")
    with pytest.raises(UserError, match="REMUDA_MIRROR must start with http://"):
        obtain(source, "test", replace(_config(tmp_path), path=str(tmp_path / "other")))


def test_downloads_go_to_the_first_writable_folder(site, tmp_path, monkeypatch):
    source = _publish_mnist(site, tmp_path, "first")
    (tmp_path / "blocked").write_text("a file, where no folder can be made")
    monkeypatch.setenv("REMUDA_DATA", str(tmp_path / "blocked"))
    assert obtain(source, "train", DataConfig()).folder == tmp_path / "cache" / "remuda" / "mnist"


_CHILD = """
import sys
from dataclasses import replace
from rich.console import Console
from remuda.data import DataConfig
from remuda.data.files import obtain
from remuda.data.sources import SOURCES, Package
from remuda.system import progress
url, folder, *md5s = sys.argv[1:]
files = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")
packages = tuple(Package(name, md5, "mnist") for name, md5 in zip(files, md5s))
source = replace(SOURCES["mnist"], mirrors=(url,), packages={"train": packages, "test": ()})
print("ready", flush=True)
sys.stdin.readline()
with progress.shown_on(Console(stderr=True)):
    print(len(obtain(source, "train", DataConfig(path=folder)).paths))
"""


def test_of_two_processes_one_downloads_and_the_other_waits(site, tmp_path):
    source = _publish_mnist(site, tmp_path, "first")
    site.delay = 0.3
    checksums = [package.md5 for package in source.packages["train"]]
    words = [sys.executable, "-c", _CHILD, source.mirrors[0], str(tmp_path / "data"), *checksums]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    children = [subprocess.Popen(words, text=True, **pipes) for _ in range(2)]
    for child in children:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    results = [child.communicate(timeout=20) for child in children]
    assert [out for out, _ in results] == ["2\n", "2\n"], results
    assert sorted(site.requests) == [f"/first/{name}" for name in _FILES]
    assert sum("waiting for the process" in err for _, err in results) == 1


def test_a_download_prints_nothing_unless_a_program_names_a_console(site, tmp_path, capfd):
    source = _publish_mnist(site, tmp_path, "first")
    obtain(source, "train", DataConfig(path=str(tmp_path / "quiet")))
    assert capfd.readouterr() == ("", "")
    stream = io.StringIO()
    with progress.shown_on(Console(file=stream, width=200)):
        obtain(source, "train", _config(tmp_path))
    assert f"downloading {site.url}/first/{_FILES[0]}" in stream.getvalue()
    assert progress.console().quiet


def test_a_full_disk_is_reported(site, tmp_path, monkeypatch):
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("remuda.data.download.publish", full)
    source = _publish_mnist(site, tmp_path, "first")
    message = r"cannot write mnist to .* \(No space left on device\): free some space"
    with pytest.raises(UserError, match=message):
        obtain(source, "train", _config(tmp_path))
