"""Find, check and remove checkpoints without PyTorch.

checkpoints/round-000010/shard-000-of-002.safetensors    the rows of rank 0, and the server
checkpoints/round-000010/shard-001-of-002.safetensors    the rows of rank 1

A checkpoint exists when all shards of one attempt exist. There is no other sign, so no process
has to wait for another. Every time a run starts, it makes a new *attempt*, because shards of one
round that were written by different attempts may differ on a GPU, and must not be mixed.

Older versions wrote checkpoints of format 2, in two files: ``state.safetensors`` with the tensors,
and ``manifest.json`` with the round, the members, and the size and SHA-256 of the tensors.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from remuda.errors import UserError
from remuda.record import shards

OLD_TENSORS, OLD_MANIFEST = "state.safetensors", "manifest.json"
OLD_FORMAT = 2


class Checkpoint(NamedTuple):
    """The files with the state after a round. Later checkpoints compare as larger."""

    round: int
    attempt: str  # "" in format 2
    folder: Path
    files: tuple[Path, ...]

    @property
    def is_old(self) -> bool:
        """Whether the checkpoint has format 2."""
        return self.files[0].name == OLD_TENSORS


def list_all(folder: Path) -> list[Checkpoint]:
    """Return all checkpoints that are complete, oldest first, without checking their content.

    Several checkpoints of one round may exist until all but the newest are removed.
    """
    found = []
    for path in folder.glob("*round-*"):
        if match := re.fullmatch(r"(?:old-)?round-(\d+)", path.name):
            found += _complete(int(match[1]), path)
    return sorted(found)


def _complete(t: int, folder: Path) -> list[Checkpoint]:
    """Return the complete checkpoints in the folder of a round."""
    found, names = [], set()
    with suppress(OSError):  # another process has just removed the folder
        names = {path.name for path in folder.iterdir()}
    if names & {OLD_TENSORS, OLD_MANIFEST}:
        found.append(Checkpoint(t, "", folder, (folder / OLD_TENSORS,)))
    counts = {parsed[1] for name in names if (parsed := shards.parse_name(name))}
    for count in counts:
        expected = [shards.file_name(number, count) for number in range(count)]
        if not names.issuperset(expected):
            continue
        files = tuple(folder / name for name in expected)
        attempts = {_attempt(path) for path in files} - {None}
        if len(attempts) <= 1:  # a damaged header belongs to any attempt
            attempt = next(iter(attempts), None) or ""
            found.append(Checkpoint(t, attempt, folder, files))
    return found


def _attempt(path: Path) -> str | None:
    try:
        return str(shards.read_header(path).description["attempt"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def newest_valid(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest intact checkpoint, or None, and the problems of newer ones."""
    return _newest_intact(list_all(folder))


def find(folder: Path, t: int) -> Checkpoint:
    """Return the checkpoint of round t; raise if it is missing or damaged."""
    known = list_all(folder)
    candidates = [checkpoint for checkpoint in known if checkpoint.round == t]
    if not known:
        raise UserError(
            f"{folder} has no checkpoint of round {t}, because it is empty: resume the run"
        )
    if not candidates:
        rounds = ", ".join(dict.fromkeys(str(checkpoint.round) for checkpoint in known))
        raise UserError(f"{folder} has no checkpoint of round {t}: choose one of {rounds}")
    found, complaints = _newest_intact(candidates)
    if found is None:
        raise UserError(f"{complaints[0]}: choose another checkpoint")
    return found


def _newest_intact(known: list[Checkpoint]) -> tuple[Checkpoint | None, list[str]]:
    complaints = []
    for checkpoint in reversed(known):
        problem = complaint(checkpoint, checkpoint.files)
        if problem is None:
            return checkpoint, complaints
        complaints.append(problem)
    return None, complaints


def members(checkpoint: Checkpoint) -> list[int]:
    """Return the ids of the members in an intact checkpoint.

    They may differ from the members in config.toml, because that file changes when ranks are lost.
    """
    return describe(checkpoint)["members"]


def describe(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the members of an intact checkpoint, and the rows of each file as [start, stop]."""
    if not checkpoint.is_old:
        return shards.read_header(checkpoint.files[0]).description
    ids = json.loads((checkpoint.folder / OLD_MANIFEST).read_text())["members"]
    return {"members": ids, "rows": [[0, len(ids)]]}


def complaint(checkpoint: Checkpoint, files: Sequence[Path]) -> str | None:
    """Check some files of a checkpoint. Return why they cannot be used; None if they are intact."""
    folder = checkpoint.folder
    try:
        for path in files:
            version, is_intact = _check_old(path) if checkpoint.is_old else _check(path)
            if version not in (OLD_FORMAT, shards.FORMAT):
                known = f"{OLD_FORMAT} and {shards.FORMAT}"
                return f"{folder} has format {version}, but this version of remuda reads {known}"
            if not is_intact:
                return f"{folder} is damaged ({path.name} does not match its SHA-256)"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{folder} is damaged ({error.__class__.__name__}: {error})"
    return None


def _check(path: Path) -> tuple[int, bool]:
    header = shards.read_header(path)
    version = header.description["format"]
    return version, version != shards.FORMAT or shards.is_intact(path, header.sha256)


def _check_old(path: Path) -> tuple[int, bool]:
    manifest = json.loads(path.with_name(OLD_MANIFEST).read_text())
    if (version := manifest["format"]) != OLD_FORMAT:
        return version, False
    size, digest, _ = manifest["bytes"], manifest["sha256"], manifest["members"]
    with path.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    return version, path.stat().st_size == size and actual == digest


# Removal of checkpoints


def prune(folder: Path, t: int, keep: int, protected: Collection[int] = ()) -> None:
    """Remove all but the newest ``keep`` checkpoints up to round t, and leftovers of these rounds.

    The folders of ``protected`` rounds stay. If some shards of round t are still being written, its
    folder stays as it is. Later rounds stay too: they exist if a run continues from an older
    checkpoint.
    """
    newest = {
        checkpoint.round: checkpoint for checkpoint in list_all(folder) if checkpoint.round <= t
    }
    kept = sorted(newest)[-keep:]
    for path in folder.glob("*round-*"):
        match = re.fullmatch(r"(?:old-)?round-(\d+)", path.name)
        number = int(match[1]) if match else t + 1
        if number < t and number not in kept and number not in protected:
            shutil.rmtree(path, ignore_errors=True)
        elif number in kept:
            _remove_others(path, newest[number])


def tidy(folder: Path) -> None:
    """Remove what killed processes left behind. Call this only while nothing is being written."""
    newest = {checkpoint.round: checkpoint for checkpoint in list_all(folder)}
    for path in folder.glob(".round-*"):  # format 2
        shutil.rmtree(path, ignore_errors=True)
    for path in folder.glob(".seen-*"):
        path.unlink(missing_ok=True)
    for path in folder.glob("*round-*"):
        if match := re.fullmatch(r"(?:old-)?round-(\d+)", path.name):
            _remove_others(path, newest.get(int(match[1])))


def _remove_others(folder: Path, checkpoint: Checkpoint | None) -> None:
    """Remove a round's files that do not belong to its checkpoint, and the folder if it is empty.

    Files that remuda did not write stay.
    """
    if checkpoint is not None and folder != checkpoint.folder:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in folder.iterdir():
        # Shards of an incomplete checkpoint stay: the user may be able to restore the missing ones.
        name = path.name if checkpoint is None else "." + path.name.removeprefix(".")
        is_shard = name.startswith(".") and shards.parse_name(name[1:]) is not None
        is_replaced = path.name in (OLD_TENSORS, OLD_MANIFEST)
        is_own = checkpoint is not None and (
            path in checkpoint.files or (checkpoint.is_old and is_replaced)
        )
        if (is_shard or (is_replaced and checkpoint is not None)) and not is_own:
            with suppress(OSError):  # it costs only space
                path.unlink()
    with suppress(OSError):  # the folder is not empty
        folder.rmdir()
