"""Find and check checkpoints without PyTorch.

checkpoints/round-000010/state.safetensors    the tensors
checkpoints/round-000010/manifest.json        round, members, size and SHA-256 of the tensors
"""

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from remuda.errors import UserError

TENSORS, MANIFEST = "state.safetensors", "manifest.json"
FORMAT = 2  # version of the file format; older versions are not supported


class Checkpoint(NamedTuple):
    """The folder with the state after a round."""

    round: int
    folder: Path


def write(folder: Path, t: int, members: Sequence[int]) -> None:
    """Write the manifest of the tensors in a folder."""
    tensors = folder / TENSORS
    manifest = {
        "format": FORMAT,
        "round": t,
        "members": list(members),
        "bytes": tensors.stat().st_size,
        "sha256": _sha256(tensors),
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))


def list_all(folder: Path) -> list[Checkpoint]:
    """Return all checkpoints, oldest first.

    While a checkpoint is being replaced, the list may contain the old and the new one of the same
    round, in this order.
    """
    found = []
    for path in folder.glob("*round-*"):
        if match := re.fullmatch(r"(?:old-)?round-(\d+)", path.name):
            found.append(Checkpoint(int(match[1]), path))
    return sorted(found)


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


def members(checkpoint: Checkpoint) -> list[int]:
    """Return the ids of the members in an intact checkpoint.

    They may differ from the members in config.toml, because that file changes when ranks are lost.
    """
    return json.loads((checkpoint.folder / MANIFEST).read_text())["members"]


def _newest_intact(known: list[Checkpoint]) -> tuple[Checkpoint | None, list[str]]:
    complaints = []
    for checkpoint in reversed(known):
        complaint = _complaint(checkpoint)
        if complaint is None:
            return checkpoint, complaints
        complaints.append(complaint)
    return None, complaints


def _complaint(checkpoint: Checkpoint) -> str | None:
    """Return why a checkpoint cannot be used; None if it is intact."""
    folder, tensors = checkpoint.folder, checkpoint.folder / TENSORS
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        if (version := manifest["format"]) != FORMAT:
            return f"{folder} has format {version}, but this version of remuda reads {FORMAT}"
        size, digest, _ = manifest["bytes"], manifest["sha256"], manifest["members"]
        is_intact = tensors.stat().st_size == size and _sha256(tensors) == digest
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{folder} is damaged ({error.__class__.__name__}: {error})"
    return None if is_intact else f"{folder} is damaged (its tensors do not match the manifest)"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
