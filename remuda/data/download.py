"""Fetches files from mirrors, so that a file under its final name is always whole and checked.

Everything is written in a scratch folder beside its destination, compared with its checksum, flushed to the
disk, and renamed. The checksums (MD5, as published) guard against broken transfers, not against forgery.
"""

import fcntl
import hashlib
import http.client
import os
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from remuda.data.sources import Package, Source
from remuda.errors import UserError
from remuda.system import disk

_TIMEOUT = 10.0  # seconds, to connect and for each read
_BLOCK = 1 << 18


class MirrorError(Exception):
    """No mirror gave a good file; the text lists what each of them did."""


def mirrors(source: Source) -> tuple[str, ...]:
    """Prefixes that file names are appended to; $REMUDA_MIRROR has a folder per data set in place of them."""
    site = os.environ.get("REMUDA_MIRROR", "")
    if not site:
        return source.mirrors
    if not site.startswith(("http://", "https://", "file://")):
        raise UserError(
            f"REMUDA_MIRROR must start with http://, https:// or file://, not be {site}"
        )
    return (f"{site.rstrip('/')}/{source.name}/",)


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the lock file; a second process waits. The file stays: removing it would race with the waiters."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("w"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                Console(stderr=True).print(
                    f"waiting for the process that holds {path}", markup=False
                )
                fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise UserError(
                f"{path} cannot be locked ({error.strerror}): set data.path to a folder elsewhere"
            ) from error
        yield


def fetch_into(package: Package, mirrors: Sequence[str], target: Path) -> None:
    """Put a package into its folder below target, unpacked if it is an archive."""
    with tempfile.TemporaryDirectory(dir=target, prefix=".fetching-") as scratch:
        path = Path(scratch) / package.file
        _fetch(package, mirrors, path)
        if package.is_archive:
            unpack_into(package, path, target)
        else:
            publish([path], target / package.folder)


def unpack_into(package: Package, archive: Path, target: Path) -> None:
    """Put the files of a checked archive's top folder into target."""
    found = _md5(archive)
    if found != package.md5:
        raise UserError(
            f"{archive} is damaged, its MD5 is {found} instead of {package.md5}: delete it to have it fetched again"
        )
    with tempfile.TemporaryDirectory(dir=target, prefix=".unpacking-") as scratch:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(scratch, filter="data")
        except tarfile.TarError as error:
            raise UserError(
                f"{archive} cannot be unpacked ({error}): put a good copy in its place"
            ) from error
        top = Path(scratch) / package.folder
        if not top.is_dir():
            raise UserError(
                f"{archive} has no folder {package.folder}: put a good copy in its place"
            )
        publish([path for path in sorted(top.iterdir()) if path.is_file()], target / package.folder)


def _fetch(package: Package, mirrors: Sequence[str], path: Path) -> None:
    failures = []
    for mirror in mirrors:
        url = mirror + package.file
        try:
            transfer(url, path)
        except (OSError, http.client.HTTPException) as error:
            failures.append(f"{url}: {reason(error)}")
            continue
        found = _md5(path)
        if found == package.md5:
            return
        failures.append(f"{url}: its MD5 is {found} instead of {package.md5}")
    raise MirrorError("; ".join(failures))


def transfer(url: str, path: Path) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    progress = Progress(*columns, console=Console(stderr=True))
    with (
        urllib.request.urlopen(url, timeout=_TIMEOUT) as response,
        path.open("wb") as file,
        progress,
    ):
        length = response.headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else None
        task = progress.add_task(f"downloading {url}", total=total)
        while block := response.read(_BLOCK):
            file.write(block)
            progress.advance(task, len(block))
        size = file.tell()
    if total is not None and size != total:
        raise OSError(f"the transfer ended after {size} of {total} bytes")


def reason(error: Exception) -> str:
    """Few words: the cause inside urllib's wrapper."""
    if isinstance(error, urllib.error.HTTPError):
        return f"{error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(getattr(error.reason, "strerror", None) or error.reason)
    return str(error) or type(error).__name__


def publish(paths: Sequence[Path], folder: Path) -> None:
    """Move complete files to their final names, flushed first: a crash leaves a whole file or none."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        disk.sync(path)
        path.replace(folder / path.name)
    disk.sync(folder)


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
