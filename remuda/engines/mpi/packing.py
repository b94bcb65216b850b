"""Pack rows into flat bytes, one leaf after the other, and describe them for the receiver."""

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from remuda.tensors import trees
from remuda.tensors.trees import Tree


def row_bytes(leaves: Sequence[Tensor]) -> int:
    """Return the size in bytes of one row over all leaves."""
    return sum(leaf[:1].numel() * leaf.element_size() for leaf in leaves)


def pack(leaves: Sequence[Tensor], rows: slice | list[int]) -> Tensor:
    """Return the chosen rows of all leaves as bytes. Do not change the result: it may be a view."""
    parts = [trees.as_bytes(leaf.detach()[rows].contiguous()) for leaf in leaves]
    if len(parts) == 1:
        return parts[0]
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.uint8)


def unpack(buffer: Tensor, leaves: Sequence[Tensor], rows: slice) -> None:
    """Overwrite a slice of rows of contiguous leaves with bytes that ``pack`` made."""
    position = 0
    for leaf in leaves:
        target = trees.as_bytes(leaf[rows])
        target.copy_(buffer[position : position + len(target)])
        position += len(target)
    assert position == len(buffer), "sender and receiver have rows of different sizes"


def describe(rows: Tree) -> str:
    """Describe the structure, types and shapes of a row as text."""
    return json.dumps(_describe(rows))


def _describe(rows: Tree) -> Any:
    if isinstance(rows, Tensor):
        return [str(rows.dtype).removeprefix("torch."), list(rows.shape[1:])]
    if isinstance(rows, dict):
        return {"dict": {name: _describe(child) for name, child in rows.items()}}
    children = [_describe(child) for child in rows]
    if not hasattr(rows, "_fields"):
        return {"tuple": children}
    cls = type(rows)
    _find(cls.__module__, cls.__qualname__)  # an unknown class fails at the sender
    return {"module": cls.__module__, "class": cls.__qualname__, "tuple": children}


def build(description: str, num_rows: int, device: torch.device) -> Tree:
    """Allocate rows that match a description, without filling them."""
    return _build(json.loads(description), num_rows, device)


def _build(value: Any, num_rows: int, device: torch.device) -> Tree:
    if isinstance(value, list):
        dtype, shape = value
        return torch.empty(num_rows, *shape, dtype=getattr(torch, dtype), device=device)
    if "dict" in value:
        return {name: _build(child, num_rows, device) for name, child in value["dict"].items()}
    children: Iterator[Tree] = (_build(child, num_rows, device) for child in value["tuple"])
    if "class" in value:
        return _find(value["module"], value["class"])(*children)
    return tuple(children)


def _find(module: str, name: str) -> type:
    """Find the class of a named tuple among the loaded modules.

    All ranks run the same program, so the module is already loaded. A message must not import
    modules.
    """
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")):
        raise TypeError(
            f"rows of {module}.{name} cannot travel: define the class at the top of a module"
        )
    return found
