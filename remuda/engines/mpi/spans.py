"""Decide which rank hosts which members, and which rows it needs from other ranks."""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from remuda.errors import UserError
from remuda.system.text import count


def spans(size: int, num_ranks: int) -> list[range]:
    """Split the members into one contiguous span per rank; lengths differ by at most one."""
    if num_ranks > size:
        raise UserError(
            f"{num_ranks} ranks are more than the {count(size, 'member')} they would host: "
            f"start at most {count(size, 'rank')}"
        )
    each, rest = divmod(size, num_ranks)
    starts = [rank * each + min(rank, rest) for rank in range(num_ranks + 1)]
    return [range(a, b) for a, b in pairwise(starts)]


class Delivery(NamedTuple):
    """A plan for one rank to receive the rows that its members take.

    The *pool* holds each row that the rank needs once, sorted by member. Each rank hosts a
    contiguous span of members, so the rows from one rank form a slice of the pool.
    """

    needed: list[int]  # members whose rows are in the pool
    incoming: dict[int, slice]  # by rank, including this one: the slice of the pool that it fills
    outgoing: dict[int, list[int]]  # by other rank: the rows of this rank that it needs
    places: Tensor  # (members here,) or (members here, K): the position of each row in the pool


def deliver(source: Tensor, hosted: list[range], rank: int) -> Delivery:
    """Plan the messages of one rank for a ``take``.

    ``source`` is the table of the members whose rows are taken; all ranks know it. ``hosted``
    holds the spans of all ranks.
    """
    source = source.cpu()
    wanted = [torch.unique(source[span.start : span.stop]) for span in hosted]  # ascending
    needed, own = wanted[rank], hosted[rank]
    incoming, outgoing = {}, {}
    for other, span in enumerate(hosted):
        first, last = torch.searchsorted(needed, torch.tensor([span.start, span.stop])).tolist()
        if last > first:
            incoming[other] = slice(first, last)
        theirs = wanted[other]
        mine = theirs[(theirs >= own.start) & (theirs < own.stop)]
        if other != rank and len(mine):
            outgoing[other] = (mine - own.start).tolist()
    here = source[own.start : own.stop].contiguous()
    return Delivery(needed.tolist(), incoming, outgoing, torch.searchsorted(needed, here))
