"""Find a data set's files on disk; unpack or download the files that are missing."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from remuda.data import download, idx
from remuda.data.config import DataConfig, Split
from remuda.data.sources import Layout, Package, Source
from remuda.errors import UserError
from remuda.system.locks import lock

OTHER_FOLDER = "set data.path to another folder"  # the remedy if a lock fails


@dataclass(frozen=True)
class Found:
    """The files of one split."""

    kind: str  # kind of layout
    paths: tuple[Path, ...]  # in the order of the layout

    @property
    def folder(self) -> Path:
        """Return the folder that holds the files."""
        return self.paths[0].parent


def data_folders(config: DataConfig) -> list[Path]:
    """Return the folders to search: data.path if set, else $REMUDA_DATA and the user's cache."""
    if config.path:
        return [Path(config.path).expanduser()]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "remuda"
    shared = os.environ.get("REMUDA_DATA")
    return [Path(shared).expanduser(), cache] if shared else [cache]


def obtain(source: Source, split: Split, config: DataConfig) -> Found:
    """Return the files of a split; unpack or download them if no data folder has them.

    New files go into the first writable folder. A lock lets only one process download at a time;
    the others wait and then use its files.
    """
    folders = data_folders(config)
    found = locate(source, split, folders)
    if found is not None:
        return found
    archive = _find_archive(source, folders)
    target = first_writable(source, folders)
    with lock(target / f".{source.name}.lock", OTHER_FOLDER):
        found = locate(source, split, folders)  # another process may have fetched them
        if found is not None:
            return found
        try:
            if archive is not None:
                download.unpack_into(*archive, target)
            else:
                _download(source, split, folders, target)
        except OSError as error:
            raise UserError(
                f"cannot write {source.name} to {target} ({error.strerror}): free some space or "
                "set data.path to another folder"
            ) from error
    found = locate(source, split, folders)
    if found is None:
        raise UserError(
            f"the {split} split of {source.name} is incomplete in {target}: put "
            f"{_wanted(source, split)} there"
        )
    return found


def locate(source: Source, split: Split, folders: list[Path]) -> Found | None:
    """Return the split's files from the first folder that has all of them, or None."""
    for folder in folders:
        for layout in source.layouts:
            for place in layout.folders:
                paths = _paths(layout, split, folder / place)
                if paths and not (place == "." and _is_foreign(source, layout, paths)):
                    return Found(layout.kind, paths)
    return None


def _paths(layout: Layout, split: Split, folder: Path) -> tuple[Path, ...]:
    """Return the split's files in this folder, or an empty tuple if one is missing."""
    paths = []
    for name in layout.files[split]:
        candidates = [folder / name]
        if layout.kind == "idx":
            candidates.append(folder / f"{name}.gz")
        present = [path for path in candidates if path.is_file()]
        if not present:
            return ()
        paths.append(present[0])
    return tuple(paths)


def _is_foreign(source: Source, layout: Layout, paths: tuple[Path, ...]) -> bool:
    """Return whether the files belong to another data set with the same file names."""
    if layout.kind != "idx" or not source.foreign_labels:
        return False
    labels = idx.content(paths[-1])
    return hashlib.md5(labels, usedforsecurity=False).hexdigest() in source.foreign_labels


def _find_archive(source: Source, folders: list[Path]) -> tuple[Package, Path] | None:
    for folder in folders:
        for package in source.archives:
            for path in (folder / package.file, folder / source.name / package.file):
                if path.is_file():
                    return package, path
    return None


def first_writable(source: Source, folders: list[Path]) -> Path:
    """Return the first folder that is writable, and create it if needed."""
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:  # try the next folder; the message below names all folders
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise UserError(
        f"{source.name} is not in {_listed(folders)}, and no files can be written there: set "
        "data.path to a folder that has it, or to a writable folder to download it"
    )


def _download(source: Source, split: Split, folders: list[Path], target: Path) -> None:
    mirrors = download.mirrors(source)
    for package in source.packages[split]:
        if not package.is_archive and _has(target / package.folder, package.file):
            continue
        try:
            download.fetch_into(package, mirrors, target)
        except download.MirrorError as error:
            raise UserError(
                f"{source.name} is not in {_listed(folders)} and cannot be downloaded ({error}): "
                f"put {_wanted(source, split)} into {target}, or name the folder that has it with "
                "--data or $REMUDA_DATA"
            ) from error


def _has(folder: Path, file: str) -> bool:
    return (folder / file).is_file() or (folder / file.removesuffix(".gz")).is_file()


def _wanted(source: Source, split: Split) -> str:
    """Return the names of the files that a user should put into a data folder."""
    packages = source.packages[split]
    return " and ".join(p.file if p.is_archive else f"{p.folder}/{p.file}" for p in packages)


def _listed(folders: list[Path]) -> str:
    return " or ".join(map(str, folders))
