"""Find out which ranks see the run folder, and send rows to and from those that do not."""

import secrets
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from remuda.engines import Communicator
from remuda.engines.mpi import packing

TAG = 1 << 14  # of messages with rows; the engine uses smaller tags
PATIENCE = 5.0  # seconds until a new file must be visible on a shared file system


def find_remote(communicator: Communicator, folder: Path) -> frozenset[int]:
    """Return the original numbers of the ranks that do not see rank 0's folder.

    All ranks must call this together.
    """
    if communicator.num_ranks == 1:
        return frozenset()
    token = secrets.token_hex(8)
    if communicator.is_root:
        (folder / f".seen-{token}").touch()
    path = folder / f".seen-{communicator.all_gather(token)[0]}"
    seen = communicator.all_gather(communicator.is_root or _appears(path))
    if communicator.is_root:
        path.unlink()
    pairs = zip(communicator.original_ranks, seen, strict=True)
    return frozenset(rank for rank, is_seen in pairs if not is_seen)


def _appears(path: Path) -> bool:
    end = time.monotonic() + PATIENCE
    while not path.exists():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def with_length(rows: Mapping[str, Tensor], length: int) -> dict[str, Tensor]:
    """Return tensors without memory that have the types and shapes of ``length`` such rows."""
    return {
        name: torch.empty(length, *leaf.shape[1:], dtype=leaf.dtype, device="meta")
        for name, leaf in rows.items()
    }


def send(communicator: Communicator, target: int, rows: Mapping[str, Tensor]) -> None:
    """Send rows to a rank, which receives them with ``receive``."""
    if not rows:
        return
    packed = packing.pack([leaf.cpu() for leaf in rows.values()], slice(None))
    communicator.exchange({target: packed}, {}, TAG)


def receive(
    communicator: Communicator, source: int, like: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Receive rows with these names, types and shapes from a rank."""
    rows = {name: torch.empty(leaf.shape, dtype=leaf.dtype) for name, leaf in like.items()}
    leaves = list(rows.values())
    if not leaves:
        return {}
    buffer = torch.empty(len(leaves[0]) * packing.row_bytes(leaves), dtype=torch.uint8)
    communicator.exchange({}, {source: buffer}, TAG)
    packing.unpack(buffer, leaves, slice(None))
    return rows
