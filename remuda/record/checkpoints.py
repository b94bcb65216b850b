"""Save and load checkpoints: trees of tensors, each in its own folder.

A checkpoint is written under a temporary name, synced and renamed, so it is never incomplete.
Nothing is pickled. ``remuda.record.manifests`` describes the files, and finds checkpoints without
PyTorch.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import safetensors
from safetensors.torch import load_file, save_file

from remuda.errors import UserError
from remuda.record import manifests
from remuda.record.manifests import (
    MANIFEST,
    TENSORS,
    Checkpoint,
    find,
    list_all,
    members,
    newest_valid,
)
from remuda.system import disk
from remuda.tensors import trees
from remuda.tensors.trees import Tree

__all__ = [
    "MANIFEST",
    "TENSORS",
    "Checkpoint",
    "find",
    "list_all",
    "load",
    "load_file",
    "members",
    "newest_valid",
    "save",
]


def save(folder: Path, t: int, tree: Tree, keep: int, member_ids: Sequence[int]) -> None:
    """Write the state after round t, then remove all but the newest ``keep`` checkpoints.

    ``member_ids`` holds the member id of each row; ids do not change when other members are lost.
    """
    folder.mkdir(exist_ok=True)
    for leftover in folder.glob(".*"):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary, old, final = (folder / f"{prefix}round-{t:06d}" for prefix in (".", "old-", ""))
    if final.exists():
        shutil.rmtree(old, ignore_errors=True)
    try:
        _write(temporary, t, tree, member_ids)
        # A round is saved again after a stop, a failure, or a resume from an earlier round. Until
        # the new checkpoint is in place, readers can still find the old one under its new name.
        if final.exists():
            final.rename(old)
        temporary.rename(final)
        disk.sync(folder)
        shutil.rmtree(old, ignore_errors=True)
    except (OSError, safetensors.SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise UserError(
            f"the checkpoint of round {t} could not be written to {folder} ({error}): make room "
            "there or check its permissions, then resume; earlier checkpoints are intact"
        ) from None
    for checkpoint in list_all(folder)[:-keep]:
        shutil.rmtree(checkpoint.folder, ignore_errors=True)


def _write(folder: Path, t: int, tree: Tree, member_ids: Sequence[int]) -> None:
    folder.mkdir()
    tensors = {name: leaf.detach().cpu().contiguous() for name, leaf in trees.named_leaves(tree)}
    save_file(tensors, folder / TENSORS)
    # safetensors makes the file private, but colleagues must be able to resume the run.
    (folder / TENSORS).chmod(folder.stat().st_mode & 0o666)
    manifests.write(folder, t, member_ids)
    for path in (folder / TENSORS, folder / MANIFEST, folder):
        disk.sync(path)


def load(checkpoint: Checkpoint, like: Tree) -> Tree:
    """Load an intact checkpoint into a tree with the structure and devices of ``like``."""
    # Clone the tensors: numerical libraries may round differently if memory is not aligned as in
    # a new tensor.
    stored = load_file(checkpoint.folder / TENSORS)
    tensors = {name: tensor.clone() for name, tensor in stored.items()}
    expected = {name: leaf.shape for name, leaf in trees.named_leaves(like)}
    if {name: tensor.shape for name, tensor in tensors.items()} != expected:
        raise UserError(
            f"{checkpoint.folder} does not fit the run's configuration: undo changes to "
            "config.toml, or use the version of remuda that wrote the checkpoint"
        )
    return trees.map(lambda new, old: new.to(old.device), trees.fill(like, tensors), like)
