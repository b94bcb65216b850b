"""Average the rows of all ranks: add weighted sums, in messages that travel while more are made."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from remuda.engines.base import factors, weighted_sum

PART = 1 << 20  # numbers in one message, unless a single leaf has more

Add = Callable[[Iterable[Tensor]], None]  # replaces numbers by their sums over all ranks


def average(
    leaves: Sequence[Tensor], weights: Tensor, span: range, dtype: torch.dtype, add: Add
) -> tuple[list[Tensor], int]:
    """Return the mean rows of the members in this span, and the bytes that this rank has added.

    ``leaves`` are floating-point rows of these members, ``weights`` those of ``Engine.mean``.
    """
    table, kind = weights.cpu()[None], torch.zeros(len(weights), dtype=torch.int64)
    if weights.ndim == 2:  # members with equal weights receive the same mean
        table, kind = torch.unique(weights.cpu(), dim=0, return_inverse=True)
    kinds, divisors = factors(table, dtype)
    mine = kind[span.start : span.stop].tolist()
    made: list[tuple[Sequence[Tensor], Tensor]] = []

    def sums() -> Iterator[Tensor]:
        for part in _parts(leaves):
            shares = kinds[:, span.start : span.stop].to(part[0].device)
            flat = [weighted_sum(leaf, share, dtype).flatten() for share in shares for leaf in part]
            made.append((part, torch.cat(flat).cpu()))
            yield made[-1][1]

    add(sums())
    means: list[Tensor] = []
    for part, numbers in made:
        sizes = [leaf[0].numel() for leaf in part]
        by_kind = numbers.unflatten(0, (len(kinds), -1)) / divisors[:, None].to(dtype)
        by_kind = by_kind.to(part[0].device)
        for leaf, column in zip(part, by_kind.split(sizes, 1), strict=True):
            means.append(column[mine].to(leaf.dtype).view(leaf.shape))
    return means, sum(numbers.numel() * numbers.element_size() for _, numbers in made)


def _parts(leaves: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Divide leaves into parts of about PART numbers."""
    part: list[Tensor] = []
    for leaf in leaves:
        part.append(leaf)
        if sum(other[0].numel() for other in part) >= PART:
            yield part
            part = []
    if part:
        yield part
