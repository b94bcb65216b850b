"""Turn the messages of a race into bytes."""

import json
from enum import IntEnum, auto
from typing import Any, NamedTuple

import torch
from torch import Tensor

from remuda.engines.mpi import packing
from remuda.tensors import trees
from remuda.tensors.trees import Tree


class Kind(IntEnum):
    """What a message is about; see ``races``."""

    RESULT = auto()
    MAIL = auto()
    COUNTED = auto()
    POST = auto()
    DONE = auto()
    PING = auto()
    PONG = auto()
    OVER = auto()
    LAST = auto()


class Letter(NamedTuple):
    """A message of a race."""

    kind: Kind
    member: int = 0
    number: int = 0  # of the member's turn
    facts: Any = ()  # JSON
    tree: Tree = ()  # rows (1, ...)


def encode(letter: Letter) -> Tensor:
    """Return the bytes of a letter, in host memory."""
    leaves = trees.leaves(letter.tree)
    text = json.dumps([*letter[:4], packing.describe(letter.tree)]).encode()
    head = torch.frombuffer(bytearray(len(text).to_bytes(8, "little") + text), dtype=torch.uint8)
    if not leaves:
        return head
    return torch.cat([head, packing.pack(leaves, slice(None)).cpu()])


class Sealed(NamedTuple):
    """The tree of a letter that has not been read, because a newer one may replace it."""

    description: str
    buffer: Tensor

    def open(self, device: torch.device) -> Tree:
        """Return the tree on a device."""
        tree = packing.build(self.description, 1, device)
        if trees.leaves(tree):
            packing.unpack(self.buffer.to(device), trees.leaves(tree), slice(None))
        return tree


def decode(buffer: Tensor, device: torch.device) -> Letter:
    """Return the letter of these bytes, with its tree on a device. The tree of a POST is Sealed."""
    start = 8 + int.from_bytes(buffer[:8].numpy().tobytes(), "little")
    kind, member, number, facts, description = json.loads(buffer[8:start].numpy().tobytes())
    sealed = Sealed(description, buffer[start:])
    tree = sealed if kind == Kind.POST else sealed.open(device)
    return Letter(Kind(kind), member, number, facts, tree)
