"""Handle trees of tensors (nested dicts, tuples, named tuples) and the *rows* that engines move.

A leaf's name is the path to it, joined by "/": ``generator/params/conv1.weight``.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

Tree = Any  # Tensor | dict[str, Tree] | tuple[Tree, ...]


def map(fn: Callable[..., Any], *trees: Tree) -> Tree:
    """Apply fn to the corresponding leaves of trees with the same structure."""
    first = trees[0]
    if isinstance(first, Tensor):
        return fn(*trees)
    if isinstance(first, dict):
        return {name: map(fn, *(tree[name] for tree in trees)) for name in first}
    if isinstance(first, tuple):
        children = [map(fn, *parts) for parts in zip(*trees, strict=True)]
        return type(first)(*children) if hasattr(first, "_fields") else tuple(children)
    raise TypeError(f"a tree holds tensors, dicts and tuples, not {type(first).__name__}")


def named_leaves(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield every leaf with its path, in a fixed order."""
    if isinstance(tree, Tensor):
        yield prefix, tree
        return
    if isinstance(tree, dict):
        items = list(tree.items())
    else:
        names = getattr(tree, "_fields", None) or [str(i) for i in range(len(tree))]
        items = list(zip(names, tree, strict=True))
    for name, child in items:
        yield from named_leaves(child, f"{prefix}/{name}" if prefix else name)


def leaves(tree: Tree) -> list[Tensor]:
    """Return all leaves, in the order of ``named_leaves``."""
    return [leaf for _, leaf in named_leaves(tree)]


def refill(tree: Tree, leaves: list[Tensor]) -> Tree:
    """Return the tree with its leaves replaced by ``leaves``, in the order of ``named_leaves``."""
    remaining = iter(leaves)
    return map(lambda _: next(remaining), tree)


def stack(trees: list[Tree]) -> Tree:
    """Stack one tree per member into a single tree with one row per member."""
    return map(lambda *members: torch.stack(members), *trees)


def flatten_rows(rows: Tree) -> Tensor:
    """Return all floating-point numbers of every row as one matrix (rows, d)."""
    floating = [leaf for leaf in leaves(rows) if leaf.is_floating_point()]
    return torch.cat([leaf.reshape(len(leaf), -1) for leaf in floating], 1)


def unflatten_rows(like: Tree, numbers: Tensor) -> Tree:
    """Return the rows with their floating-point numbers replaced by those of a matrix (rows, d)."""
    place = 0

    def replaced(leaf: Tensor) -> Tensor:
        nonlocal place
        if not leaf.is_floating_point():
            return leaf
        start, place = place, place + leaf[0].numel()
        return numbers[:, start:place].reshape(leaf.shape).to(leaf.dtype)

    return map(replaced, like)


def where(condition: Tensor, first: Tree, second: Tree) -> Tree:
    """Return the first tree where the condition is true, or else the second one."""
    return map(lambda a, b: torch.where(condition, a, b), first, second)


def row(rows: Tree, i: int | Tensor) -> Tree:
    """Return row i of every leaf as a view, or copies of several rows if i is a tensor."""
    return map(lambda leaf: leaf[i], rows)


def num_bytes(tree: Tree) -> int:
    """Return the total size of all leaves in bytes."""
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves(tree))


def as_bytes(leaf: Tensor) -> Tensor:
    """View a contiguous tensor as bytes. This works for a single element with any strides."""
    return leaf.as_strided((leaf.numel(),), (1,)).view(torch.uint8)


def to(tree: Tree, device: torch.device | str) -> Tree:
    """Return the tree with all leaves on this device."""
    return map(lambda leaf: leaf.to(device), tree)


def equal(a: Tree, b: Tree) -> bool:
    """Return whether two trees have the same names and, bit for bit, the same values."""
    left, right = dict(named_leaves(a)), dict(named_leaves(b))
    return left.keys() == right.keys() and all(
        torch.equal(left[name], right[name]) for name in left
    )


def fill(like: Tree, tensors: dict[str, Tensor], prefix: str = "") -> Tree:
    """Return the structure of ``like`` with the named tensors as leaves.

    This is the inverse of ``dict(named_leaves(tree))``.
    """
    if isinstance(like, Tensor):
        return tensors[prefix]

    def child(name: str, value: Tree) -> Tree:
        return fill(value, tensors, f"{prefix}/{name}" if prefix else name)

    if isinstance(like, dict):
        return {name: child(name, value) for name, value in like.items()}
    if hasattr(like, "_fields"):
        return type(like)(
            *(child(name, value) for name, value in zip(like._fields, like, strict=True))
        )
    return tuple(child(str(i), value) for i, value in enumerate(like))
