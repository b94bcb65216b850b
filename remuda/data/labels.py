"""Read the classes of images from files next to them.

Two conventions are known. In Hugging Face's image folders, ``metadata.csv`` or ``metadata.jsonl``
has the columns ``file_name`` and ``label``. In WebDataset's tar archives, the label of ``0001.jpg``
is in ``0001.cls``, ``0001.json`` or ``0001.txt``.
"""

import csv
import io
import json
import posixpath
from collections.abc import Iterator, Sequence
from typing import Any

from remuda.data.containers import Container
from remuda.data.decoding import Broken
from remuda.errors import UserError

_METADATA = ("metadata.csv", "metadata.jsonl")
_SIDECARS = (".cls", ".json", ".txt")  # in this order
_JSON_KEYS = ("label", "class", "cls")
_MAX_LENGTH = 200  # characters of a class's name; longer texts are captions


def find_labels(container: Container, prefix: str, images: Sequence[str]) -> dict[str, str] | None:
    """Return the class of each image below a folder; None if only folders tell the classes."""
    found = _from_metadata(container, prefix)
    if found is None and container.is_tar:
        found = _from_sidecars(container, images)
    if found is None:
        return None
    missing = [name for name in images if name not in found]
    if missing:
        raise UserError(
            f"{container.root} tells no label for {len(missing)} of {len(images)} images, such as "
            f"{missing[0]}: add their labels, or remove these images"
        )
    present = set(images)
    for name in found:
        if name not in present:
            raise UserError(
                f"the metadata of {container.root} name {name!r}, which is no image there: correct "
                "its file_name, or remove the row"
            )
    return found


def sorted_classes(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the different labels: numbers by value, everything else by name."""
    different = sorted(set(labels))
    if all(label.isdecimal() for label in different):
        different.sort(key=int)
    return tuple(different)


def _from_metadata(container: Container, prefix: str) -> dict[str, str] | None:
    found: dict[str, str] = {}
    has_labels = False
    for name in container.names:
        folder, slash, file = name.rpartition("/")
        if file not in _METADATA or not name.startswith(prefix):
            continue
        for row in _rows(container, name):
            if not isinstance(row, dict) or not isinstance(row.get("file_name"), str):
                raise UserError(
                    f"{container.root}: {name} needs the column file_name in every row: add it"
                )
            if row.get("label") in (None, ""):
                continue
            has_labels = True
            path = posixpath.normpath(folder + slash + row["file_name"])
            found[path] = _checked(container, name, row["label"])
    return found if has_labels else None


def _rows(container: Container, name: str) -> Iterator[Any]:
    text = _text(container, name)
    try:
        if name.endswith(".csv"):
            yield from csv.DictReader(io.StringIO(text), strict=True)
            return
        for line in text.split("\n"):  # JSON strings may contain Unicode's other line separators
            if line.strip():
                yield json.loads(line)
    except (csv.Error, ValueError, RecursionError) as error:
        raise UserError(
            f"{container.root}: {name} cannot be read ({error}): correct it or remove it"
        ) from error


def _from_sidecars(container: Container, images: Sequence[str]) -> dict[str, str] | None:
    present = set(container.names)
    found = {}
    for name in images:
        stem = name.rpartition(".")[0]
        for suffix in _SIDECARS:
            if stem + suffix not in present:
                continue
            label = _sidecar(container, stem + suffix)
            if label is not None:
                found[name] = label
                break
    return found or None


def _sidecar(container: Container, name: str) -> str | None:
    """Return the label in a file; None if it is JSON without a label."""
    value: Any = _text(container, name).strip()
    if name.endswith(".json"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{container.root}: {name} is not valid JSON ({error}): correct it"
            ) from error
        keys = [key for key in _JSON_KEYS if isinstance(value, dict) and key in value]
        if not keys:
            return None
        value = value[keys[0]]
    return _checked(container, name, value)


def _checked(container: Container, name: str, value: Any) -> str:
    is_simple = isinstance(value, str | int) and not isinstance(value, bool)
    text = str(value).strip() if is_simple else ""
    if not text or len(text) > _MAX_LENGTH or not text.isprintable():
        raise UserError(
            f"{container.root}: {name} has the label {str(value)[:40]!r}, which is no name of a "
            f"class: use one line of at most {_MAX_LENGTH} characters"
        )
    return text


def _text(container: Container, name: str) -> str:
    try:
        return container.read(name).decode("utf-8-sig")
    except (Broken, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {name} of {container.root} ({error}): correct it") from error
