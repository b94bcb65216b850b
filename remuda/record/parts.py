"""Keep a copy of users' own code in the run folder.

parts/        a copy of every file that the settings name
parts.json    where each file or module came from, and its checksum
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from remuda.config.references import map_references, references
from remuda.errors import PARTS
from remuda.errors import PARTS_INDEX as INDEX
from remuda.record import files
from remuda.system import disk, parts

Entry = dict[str, str]  # file or module; source, package; sha256


def keep(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Copy the files that the settings name, and return settings that name the copies.

    The paths of the copies are relative to the run folder.
    """
    if not references(values):
        return values
    entries = read(folder)

    def keep_one(reference: str) -> str:
        place, name = parts.split(reference)
        if not parts.is_file(place):
            _add_module(entries, reference)
            return reference
        return f"{PARTS}/{_copy(folder, Path(place), entries)}:{name}"

    kept = map_references(values, keep_one)
    disk.write_text(folder / INDEX, json.dumps(entries, indent=1))
    return kept


def read(folder: Path) -> list[Entry]:
    """Return the entries of parts.json."""
    path = folder / INDEX
    return files.read_json(path, _parse) if path.exists() else []


def changes(folder: Path, values: dict[str, Any]) -> list[str]:
    """Tell what has changed in the code that the settings name since the run started.

    The paths in the settings must be absolute.
    """
    places = {parts.split(one)[0] for found in references(values).values() for one in found}
    texts: list[str] = []
    for entry in read(folder):
        if entry.get("module", str(folder.absolute() / PARTS / entry.get("file", ""))) in places:
            texts += _changes(folder, entry)
    return texts


def _changes(folder: Path, entry: Entry) -> list[str]:
    if "module" in entry:
        now = parts.origin(f"{entry['module']}:x")
        if entry["package"] == now.package:
            return []
        return [f"{folder} was started with {entry['package']}, and {now.package} is installed now"]
    found, copy, source = [], folder / PARTS / entry["file"], Path(entry["source"])
    if copy.exists() and parts.digest(copy) != entry["sha256"]:
        found.append(f"{copy} has changed since the run started")
    if source.exists() and parts.digest(source) != entry["sha256"]:
        found.append(
            f"{source} has changed since the run started; the run uses its own copy, {copy}"
        )
    return found


def _copy(folder: Path, path: Path, entries: list[Entry]) -> str:
    """Copy a file into the run folder unless a copy exists, and return the name of the copy."""
    text, own = parts.imported_text(path), folder / PARTS
    if path.parent.resolve() == own.resolve():
        return path.name
    sha256 = hashlib.sha256(text).hexdigest()
    for entry in entries:
        if entry.get("sha256") == sha256 and "file" in entry and (own / entry["file"]).exists():
            return entry["file"]
    own.mkdir(exist_ok=True)
    name, number = path.name, 1
    while (own / name).exists():
        number += 1
        name = f"{path.stem}-{number}.py"
    disk.write_bytes(own / name, text)
    entries.append({"file": name, "source": str(path), "sha256": sha256})
    return name


def _add_module(entries: list[Entry], reference: str) -> None:
    origin = parts.origin(reference)
    entry = {"module": origin.place, "package": origin.package, "sha256": origin.sha256}
    known = [one for one in entries if one.get("module") == origin.place]
    if not known:
        entries.append(entry)


def _parse(entries: Any) -> list[Entry]:
    if not isinstance(entries, list):
        raise TypeError("not a list")
    for entry in entries:
        keys = {"file", "source", "sha256"}, {"module", "package", "sha256"}
        if not isinstance(entry, dict) or set(entry) not in keys:
            raise TypeError("not a list of files and modules")
        if not all(isinstance(value, str) for value in entry.values()):
            raise TypeError("not texts")
        if Path(entry.get("file", "")).name != entry.get("file", ""):
            raise TypeError("a file outside the folder parts")
    return entries
