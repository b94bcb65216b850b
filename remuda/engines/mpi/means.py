"""Average the rows of all ranks: add weighted sums, in messages that travel while more are made."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from remuda.engines.base import factors, weighted_sum

PART = 1 << 20  # numbers in one message, unless a single leaf has more

Add = Callable[[Iterable[Tensor]], None]  # replaces numbers by their sums over all ranks


def average(
    leaves: Sequence[Tensor],
    weights: Tensor,
    spans: Sequence[range],
    rank: int,
    dtype: torch.dtype,
    add: Add,
) -> tuple[list[Tensor], int]:
    """Return the mean rows of this rank's members, and the bytes that this rank has added.

    ``leaves`` are floating-point rows of these members, ``weights`` those of ``Engine.mean``. Means
    of members that all live on one rank need no messages.
    """
    span = spans[rank]
    table, kind = weights.cpu()[None], torch.zeros(len(weights), dtype=torch.int64)
    if weights.ndim == 2:  # members with equal weights receive the same mean
        table, kind = torch.unique(weights.cpu(), dim=0, return_inverse=True)
    travels = _travelling(table, kind, spans)
    own = kind[span.start : span.stop]
    kept = torch.isin(torch.arange(len(table)), own) & ~travels
    chosen = torch.cat([travels.nonzero()[:, 0], kept.nonzero()[:, 0]])
    num_sent = int(travels.sum())
    kinds, divisors = factors(table[chosen], dtype)
    mine = [chosen.tolist().index(number) for number in own.tolist()]
    made: list[tuple[Sequence[Tensor], Tensor]] = []

    def sums() -> Iterator[Tensor]:
        for part in _parts(leaves):
            shares = kinds[:, span.start : span.stop].to(part[0].device)
            flat = [
                torch.cat([weighted_sum(leaf, share, dtype).flatten() for leaf in part])
                for share in shares
            ]
            made.append((part, torch.stack(flat).cpu()))
            if num_sent:
                yield made[-1][1][:num_sent].flatten()  # a view, because these rows are adjacent

    add(sums())
    means: list[Tensor] = []
    for part, numbers in made:
        sizes = [leaf[0].numel() for leaf in part]
        by_kind = (numbers / divisors[:, None].to(dtype)).to(part[0].device)
        for leaf, column in zip(part, by_kind.split(sizes, 1), strict=True):
            means.append(column[mine].to(leaf.dtype).view(leaf.shape))
    return means, sum(numbers[:num_sent].numel() * numbers.element_size() for _, numbers in made)


def _travelling(table: Tensor, kind: Tensor, spans: Sequence[range]) -> Tensor:
    """Return which kinds of means involve members of several ranks, (kinds,)."""
    ranks = torch.tensor([rank for rank, span in enumerate(spans) for _ in span])
    receives = kind == torch.arange(len(table))[:, None]
    involved = receives | (table > 0)
    first = torch.where(involved, ranks, len(spans)).amin(1)
    last = torch.where(involved, ranks, -1).amax(1)
    return first < last


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
