"""Checkpoints: a tree of tensors in a folder of its own, there entirely or not at all.

    checkpoints/round-000010/state.safetensors    the tensors, by their paths in the tree
    checkpoints/round-000010/manifest.json        round, members, size and SHA-256 of the other file

Written under a temporary name, synced, renamed. Nothing is pickled.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import safetensors
from safetensors.torch import load_file, save_file

from remuda.errors import UserError
from remuda.system import disk
from remuda.tensors import trees
from remuda.tensors.trees import Tree

TENSORS, MANIFEST = "state.safetensors", "manifest.json"
FORMAT = 2


class Checkpoint(NamedTuple):
    round: int
    folder: Path


def save(folder: Path, t: int, tree: Tree, keep: int, members: Sequence[int]) -> None:
    """Write the state after round t, then remove all but the newest ``keep`` checkpoints.

    ``members`` are those whose rows it has, by their numbers before any was lost.
    """
    folder.mkdir(exist_ok=True)
    for leftover in folder.glob(".*"):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary, aside, final = (folder / f"{prefix}round-{t:06d}" for prefix in (".", "old-", ""))
    if final.exists():
        shutil.rmtree(aside, ignore_errors=True)
    try:
        _write(temporary, t, tree, members)
        if (
            final.exists()
        ):  # the same round again: after a stop, a loss of members, or a resume from an earlier one
            final.rename(aside)  # where it is found until the new one has its place
        temporary.rename(final)
        disk.sync(folder)
        shutil.rmtree(aside, ignore_errors=True)
    except (OSError, safetensors.SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise UserError(
            f"the checkpoint of round {t} could not be written to {folder} ({error}): make room there or check its "
            "permissions, then resume; earlier checkpoints are intact"
        ) from None
    for old in list_all(folder)[:-keep]:
        shutil.rmtree(old.folder, ignore_errors=True)


def _write(folder: Path, t: int, tree: Tree, members: Sequence[int]) -> None:
    folder.mkdir()
    tensors = {name: leaf.detach().cpu().contiguous() for name, leaf in trees.named_leaves(tree)}
    save_file(tensors, folder / TENSORS)
    (folder / TENSORS).chmod(
        folder.stat().st_mode & 0o666
    )  # the library makes it private; colleagues resume too
    size = (folder / TENSORS).stat().st_size
    digest = _sha256(folder / TENSORS)
    manifest = {
        "format": FORMAT,
        "round": t,
        "members": list(members),
        "bytes": size,
        "sha256": digest,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))
    for path in (folder / TENSORS, folder / MANIFEST, folder):
        disk.sync(path)


def list_all(folder: Path) -> list[Checkpoint]:
    """All complete-looking checkpoints, oldest first; of one round, that which is being replaced before the new one."""
    found = []
    for path in folder.glob("*round-*"):
        if match := re.fullmatch(r"(?:old-)?round-(\d+)", path.name):
            found.append(Checkpoint(int(match[1]), path))
    return sorted(found)


def newest_valid(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is intact, if there is one, and why newer ones are not."""
    return _newest_intact(list_all(folder))


def _newest_intact(known: list[Checkpoint]) -> tuple[Checkpoint | None, list[str]]:
    complaints = []
    for checkpoint in reversed(known):
        complaint = _complaint(checkpoint)
        if complaint is None:
            return checkpoint, complaints
        complaints.append(complaint)
    return None, complaints


def find(folder: Path, t: int) -> Checkpoint:
    """The checkpoint of round t, checked."""
    known = list_all(folder)
    mine = [checkpoint for checkpoint in known if checkpoint.round == t]
    if not mine:
        rounds = ", ".join(dict.fromkeys(str(checkpoint.round) for checkpoint in known)) or "none"
        raise UserError(f"there is no checkpoint of round {t} in {folder}: there are {rounds}")
    found, complaints = _newest_intact(mine)
    if found is None:
        raise UserError(f"{complaints[0]}: choose another checkpoint")
    return found


def members(checkpoint: Checkpoint) -> list[int]:
    """Whose rows an intact checkpoint has, whatever the run's configuration has come to since."""
    return json.loads((checkpoint.folder / MANIFEST).read_text())["members"]


def load(checkpoint: Checkpoint, like: Tree) -> Tree:
    """The tree saved in an intact checkpoint, in the structure and on the devices of ``like``."""
    # Cloned: arithmetic libraries may round differently on memory that is not aligned as a fresh tensor's is.
    tensors = {
        name: tensor.clone() for name, tensor in load_file(checkpoint.folder / TENSORS).items()
    }
    expected = dict(trees.named_leaves(like))
    if tensors.keys() != expected.keys() or any(
        tensors[n].shape != expected[n].shape for n in tensors
    ):
        raise UserError(
            f"{checkpoint.folder} does not fit the run's configuration: was config.toml changed, or written by "
            "another version of remuda?"
        )
    return trees.map(lambda new, old: new.to(old.device), trees.fill(like, tensors), like)


def _complaint(checkpoint: Checkpoint) -> str | None:
    tensors = checkpoint.folder / TENSORS
    try:
        manifest = json.loads((checkpoint.folder / MANIFEST).read_text())
        if (version := manifest["format"]) != FORMAT:
            return f"{checkpoint.folder} has format {version}, and this version of remuda reads {FORMAT}"
        size, digest, _ = manifest["bytes"], manifest["sha256"], manifest["members"]
        intact = tensors.stat().st_size == size and _sha256(tensors) == digest
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{checkpoint.folder} is damaged ({error.__class__.__name__}: {error})"
    return (
        None
        if intact
        else f"{checkpoint.folder} is damaged (its tensors do not match the manifest)"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
