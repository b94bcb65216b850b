"""Download files from mirrors; a file with its final name is always complete and verified.

Each file is written to a scratch folder next to its destination, compared with its checksum,
flushed to the disk and renamed. The checksums (MD5, as published) guard against broken transfers,
not against forgery.
"""

import hashlib
import http.client
import os
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from remuda.data.sources import Package, Source
from remuda.errors import UserError
from remuda.system import disk, look, progress

_TIMEOUT = 10.0  # seconds to connect, and for each read
_BLOCK = 1 << 18  # bytes per read


class MirrorError(Exception):
    """Report that every mirror failed; the message lists the failure of each mirror."""


def mirrors(source: Source) -> tuple[str, ...]:
    """Return the URLs of the folders that have the files, in the order to try.

    $REMUDA_MIRROR replaces all of them; this mirror must have one folder for each data set.
    """
    site = os.environ.get("REMUDA_MIRROR", "")
    if not site:
        return source.mirrors
    if not site.startswith(("http://", "https://", "file://")):
        raise UserError(
            f"REMUDA_MIRROR must start with http://, https:// or file://, but it is {site}"
        )
    return (f"{site.rstrip('/')}/{source.name}/",)


def fetch_into(package: Package, mirrors: Sequence[str], target: Path) -> None:
    """Download a package into its folder below target, and unpack it if it is an archive."""
    with tempfile.TemporaryDirectory(dir=target, prefix=".fetching-") as scratch:
        path = Path(scratch) / package.file
        _fetch(package, mirrors, path)
        if package.is_archive:
            unpack_into(package, path, target)
        else:
            publish([path], target / package.folder)


def unpack_into(package: Package, archive: Path, target: Path) -> None:
    """Verify an archive and move the files of its top folder into target."""
    found = _md5(archive)
    if found != package.md5:
        raise UserError(
            f"{archive} is damaged: its MD5 is {found} instead of {package.md5}; delete it to "
            "download it again"
        )
    with tempfile.TemporaryDirectory(dir=target, prefix=".unpacking-") as scratch:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(scratch, filter="data")
        except tarfile.TarError as error:
            raise UserError(
                f"cannot unpack {archive} ({error}): replace it with a good copy"
            ) from error
        top = Path(scratch) / package.folder
        if not top.is_dir():
            raise UserError(
                f"{archive} has no folder {package.folder}: replace it with a good copy"
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
    """Download a URL to a file, and show a progress bar if the program named a console."""
    with urllib.request.urlopen(url, timeout=_TIMEOUT) as response, path.open("wb") as file:
        length = response.headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else None
        progress.say(f"downloading {url}")
        title = f"downloading {path.name}"
        with progress.tracked(title, total, format=look.memory) as task:
            while block := response.read(_BLOCK):
                file.write(block)
                task.advance(len(block))
        size = file.tell()
    if total is not None and size != total:
        raise OSError(f"the transfer ended after {size} of {total} bytes")


def reason(error: Exception) -> str:
    """Describe an error in a few words. For a urllib error, describe the underlying cause."""
    if isinstance(error, urllib.error.HTTPError):
        return f"{error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(getattr(error.reason, "strerror", None) or error.reason)
    return str(error) or type(error).__name__


def publish(paths: Sequence[Path], folder: Path) -> None:
    """Flush complete files and move them to a folder; a crash never leaves a partial file there."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        disk.sync(path)
        path.replace(folder / path.name)
    disk.sync(folder)


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
