"""List and read the files of a folder, a Zip archive or tar archives.

Archives are never unpacked: their members are read where they are. Nothing that an archive contains
can therefore create or change a file.
"""

import hashlib
import os
import re
import stat
import tarfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path

from remuda.data import headers
from remuda.data.decoding import Broken, is_image
from remuda.errors import UserError

MAX_BYTES = 1 << 28  # of one file, unpacked; larger files are not read
SPLITS = ("train", "test", "val", "validation")
_PIECE = 4096  # bytes of a Zip member to unpack at once
# Only these methods make little data of a piece; bzip2 can make gigabytes of it.
_METHODS = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA
_MAX_SHARDS = 100_000
_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


class Container(ABC):
    """The visible files below one root, by paths such as ``cat/1.png``."""

    is_archive = True
    is_tar = False

    def __init__(self, root: Path):
        self.root = root
        self.names: list[str] = []  # of files, in the order of their path's components
        self.folders: set[str] = set()  # all folders, such as train and train/cat
        self.stamp = ""  # digest of the names, sizes and times of all files

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return the content of a file. Raise Broken if it cannot be read."""

    def _finish(self, found: Iterable[tuple[str, object, object]]) -> None:
        """Store names in order, with their folders and the digest of sizes and times."""
        digest = hashlib.sha256()
        for name, size, time in found:
            self.names.append(name)
            digest.update(f"{name}\0{size}\0{time}\n".encode(errors="surrogateescape"))
            folder = name.rpartition("/")[0]
            while folder and folder not in self.folders:
                self.folders.add(folder)
                folder = folder.rpartition("/")[0]
        self.stamp = digest.hexdigest()


def open_container(path: Path) -> Container:
    """Return the files at a path: a folder, a .zip or .tar file, or ``name-{000..003}.tar``."""
    if path.is_dir():
        folder = Folder(path)
        tars = [path / name for name in folder.names if name.endswith(".tar")]
        return Tars(path, tars) if tars and _has_only_tars(folder) else folder
    if path.name.endswith(_COMPRESSED):
        raise UserError(
            f"{path} is compressed, so its images cannot be read in any order: decompress it to a "
            ".tar file"
        )
    if shards := _shards(path):
        return Tars(path.parent, shards)
    if path.is_file() and path.suffix.lower() == ".zip":
        return Zip(path)
    if path.is_file() and path.suffix.lower() == ".tar":
        return Tars(path, [path])
    raise UserError(
        f"{path} is not a folder, a .zip file or a .tar file: name one that contains images with "
        "--set data.name=folder:PATH"
    )


def check_size(size: int) -> None:
    """Raise Broken if a file is too large to be read."""
    if size > MAX_BYTES:
        raise Broken(f"it has {size / 1e6:,.0f} MB, more than the limit of {MAX_BYTES >> 20} MB")


class Folder(Container):
    """The files of a folder on disk. Links are followed."""

    is_archive = False

    def __init__(self, root: Path):
        super().__init__(root)
        self._finish(self._walk(root, "", frozenset()))

    def _walk(
        self, folder: Path, prefix: str, parents: frozenset[tuple[int, int]]
    ) -> Iterator[tuple[str, object, object]]:
        """Yield files in order; ``parents`` prevents endless loops through links."""
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            raise UserError(
                f"cannot list {folder} ({error.strerror}): check its permissions"
            ) from error
        place = status.st_dev, status.st_ino
        if place in parents:
            return
        for entry in entries:
            name = prefix + entry.name
            if entry.name.startswith("."):
                continue
            try:
                found = entry.stat()
            except OSError:  # a link to a missing file or to itself; reading it reports the problem
                yield name, None, None
                continue
            if stat.S_ISDIR(found.st_mode):
                self.folders.add(name)
                yield from self._walk(folder / entry.name, f"{name}/", parents | {place})
            else:
                yield name, found.st_size, found.st_mtime_ns

    def read(self, name: str) -> bytes:
        path = self.root / name
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise Broken("it is not a regular file")
            check_size(found.st_size)
            return path.read_bytes()
        except OSError as error:
            raise Broken(f"it cannot be read: {error.strerror}") from error


class Zip(Container):
    """The members of a Zip archive."""

    def __init__(self, root: Path):
        super().__init__(root)
        try:
            self._file = zipfile.ZipFile(root)
        except Exception as error:  # a damaged archive can raise almost any exception
            raise UserError(
                f"cannot read the archive {root} ({error}): replace it with a good copy"
            ) from error
        self._members: dict[str, zipfile.ZipInfo] = {}
        for info in self._file.infolist():
            name = _checked(root, info.filename.replace("\\", "/"))
            if stat.S_ISLNK(info.external_attr >> 16):
                _refuse_link(root, name, "zip without the option --symlinks")
            if info.filename.endswith("/"):
                self.folders |= {name} if _is_visible(name) else set()
            elif name and _is_visible(name):
                self._members[name] = info
        ordered = sorted(self._members.items(), key=lambda item: item[0].split("/"))
        self._finish((name, info.file_size, info.CRC) for name, info in ordered)

    def read(self, name: str) -> bytes:
        info = self._members[name]
        check_size(info.file_size)
        if info.compress_type not in _METHODS:
            raise Broken("its compression is not deflate")
        content = bytearray()
        try:  # The size may be a lie, and one call unpacks all that it reads.
            with self._file.open(info) as file:
                while piece := file.read(_PIECE):
                    content += piece
            return bytes(content)
        except Exception as error:  # a damaged member can raise almost any exception
            raise Broken(f"it cannot be unpacked: {error}") from error


class Tars(Container):
    """The members of one or several uncompressed tar archives, the shards.

    With several shards, member ``cat/1.png`` of shard ``train-000.tar`` has the name
    ``train/cat/train-000.tar:1.png``, because shards may use the same names.
    """

    is_tar = True

    def __init__(self, root: Path, shards: list[Path]):
        super().__init__(root)
        self._members: dict[str, tuple[Path, int, int]] = {}  # shard, position, size
        times = []
        for shard in shards:
            for member in headers.members(shard):
                self._add(shard, member, is_only=shards == [root])
            times.append(shard.stat().st_mtime_ns)
        ordered = sorted(self._members.items(), key=lambda item: item[0].split("/"))
        self._finish((name, place[1:], times) for name, place in ordered)

    def _add(self, shard: Path, member: tarfile.TarInfo, *, is_only: bool) -> None:
        name = _checked(shard, member.name)
        if member.isdir():
            return
        if member.issym() or member.islnk():
            _refuse_link(shard, name, "tar --dereference --hard-dereference")
        if not member.isreg() or member.issparse():
            raise UserError(
                f"{shard} contains {name}, which is a device or another special file: pack the "
                "archive again without it"
            )
        if not name or not _is_visible(name):
            return
        if not is_only:
            folder, _, file = name.rpartition("/")
            parts = [_split_of(shard, self.root), folder, f"{shard.name}:{file}"]
            name = "/".join(part for part in parts if part)
        self._members[name] = shard, member.offset_data, member.size

    def read(self, name: str) -> bytes:
        shard, start, size = self._members[name]
        check_size(size)
        try:
            with shard.open("rb") as file:
                content = os.pread(file.fileno(), size, start)
        except OSError as error:
            raise Broken(f"it cannot be read: {error.strerror}") from error
        if len(content) < size:
            raise Broken("the archive ends before this file does")
        return content


def _checked(archive: Path, name: str) -> str:
    """Return a member's path without needless parts. Raise if it leaves the archive."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    is_odd = any(ord(character) < 32 or ord(character) == 127 for character in name)
    if name.startswith("/") or ".." in parts or is_odd or re.match(r"[A-Za-z]:", name):
        raise UserError(
            f"{archive} contains the unsafe path {name!r}: pack the archive again with plain "
            "paths below one folder"
        )
    return "/".join(parts)


def _is_visible(name: str) -> bool:
    return not any(part.startswith(".") for part in name.split("/"))


def _refuse_link(archive: Path, name: str, remedy: str) -> None:
    raise UserError(
        f"{archive} contains the link {name}, which remuda does not follow: pack the archive again "
        f"with {remedy}"
    )


def _has_only_tars(folder: Folder) -> bool:
    """Return whether the tar files are shards: in the folder itself or in its splits."""
    places = {name.rpartition("/")[0] for name in folder.names if name.endswith(".tar")}
    return places <= {"", *SPLITS} and not any(map(is_image, folder.names))


def _split_of(shard: Path, root: Path) -> str:
    """Return the split that a shard's folder or the first word of its name tells, or ""."""
    first = shard.relative_to(root).parts[0]
    word = re.split(r"[^A-Za-z]", first, maxsplit=1)[0].lower()
    return word if word in SPLITS else ""


def _shards(path: Path) -> list[Path]:
    """Return the files that a pattern such as ``name-{000..003}.tar`` stands for."""
    pattern = re.fullmatch(r"(.*)\{(\d+)\.\.(\d+)\}(.*\.tar)", path.name)
    if pattern is None:
        return []
    before, first, last, after = pattern.groups()
    numbers = range(int(first), int(last) + 1)
    if not 0 < len(numbers) <= _MAX_SHARDS:
        raise UserError(
            f"{path.name} stands for {len(numbers)} files: write 1 to {_MAX_SHARDS} numbers, such "
            "as name-{000..003}.tar"
        )
    shards = [path.with_name(f"{before}{n:0{len(first)}}{after}") for n in numbers]
    missing = [shard for shard in shards if not shard.is_file()]
    if missing:
        raise UserError(
            f"{missing[0]} does not exist, but {path.name} requires it: restore it, or write other "
            "numbers"
        )
    return shards
