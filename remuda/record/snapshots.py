"""Take snapshots of tensors, so that a thread can write them while training continues.

Rounds never change a tensor of the state. On a CPU, a snapshot therefore refers to the state's own
memory. From a GPU, tensors are copied to pinned host memory, which is allocated once.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

from remuda.record import shards
from remuda.tensors import trees

# The names that safetensors uses. Tensors of the state have one of these types.
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
# Bytes of host memory to pin at a time. PyTorch rounds larger sizes up to a power of two.
PIECE = 1 << 26


@dataclass(frozen=True)
class Snapshot:
    """Tensors as one sequence of bytes, ready to be written to a shard."""

    tensors: list[shards.Tensor]
    buffers: list[memoryview]
    wait: Callable[[], float]  # wait for the copy; return the seconds that it delayed the GPU

    @property
    def num_bytes(self) -> int:
        """The size of all tensors."""
        return self.tensors[-1].stop if self.tensors else 0

    def data(self) -> Iterator[memoryview]:
        """Yield the bytes of all tensors."""
        left = self.num_bytes
        for buffer in self.buffers:
            yield buffer[:left]
            left -= len(buffer[:left])


class Snapshots:
    """Takes snapshots of the tensors on one device. Only one snapshot may be in use at a time."""

    def __init__(self, device: torch.device):
        self.device = device
        self.pieces: list[torch.Tensor] = []

    def reserve(self, num_bytes: int) -> None:
        """Pin enough host memory for snapshots of a GPU's tensors."""
        if self.device.type != "cuda":
            return
        while len(self.pieces) * PIECE < num_bytes:
            self.pieces.append(torch.empty(PIECE, dtype=torch.uint8, pin_memory=True))

    def take(self, leaves: Mapping[str, torch.Tensor]) -> Snapshot:
        """Return a snapshot of named tensors, all of them on the device."""
        leaves = {name: leaf.detach().contiguous() for name, leaf in leaves.items()}
        # Larger elements come first, so that the start of each tensor suits its type.
        ordered = sorted(leaves.items(), key=lambda item: -item[1].element_size())
        tensors, position = [], 0
        for name, leaf in ordered:
            end = position + leaf.numel() * leaf.element_size()
            shape = tuple(leaf.shape)
            tensors.append(shards.Tensor(name, NAMES[leaf.dtype], shape, position, end))
            position = end
        flat = [trees.as_bytes(leaf) for _, leaf in ordered]
        if self.device.type != "cuda":
            return Snapshot(tensors, [part.numpy().data for part in flat], lambda: 0.0)
        self.reserve(position)
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        copy_to_pieces(flat, self.pieces)
        ended.record()

        def wait() -> float:
            ended.synchronize()
            return began.elapsed_time(ended) / 1000

        return Snapshot(tensors, [piece.numpy().data for piece in self.pieces], wait)


def copy_to_pieces(sources: list[torch.Tensor], pieces: list[torch.Tensor]) -> None:
    """Copy the bytes of all sources, one after the other, into pieces of equal size."""
    position, size = 0, len(pieces[0]) if pieces else 1
    for source in sources:
        while len(source):
            piece, offset = divmod(position, size)
            part = source[: size - offset]
            pieces[piece][offset : offset + len(part)].copy_(part, non_blocking=True)
            source, position = source[len(part) :], position + len(part)


def new_attempt() -> str:
    """Return a name for an attempt to train. Names of later attempts compare as larger."""
    return f"{time.time_ns():020d}"
