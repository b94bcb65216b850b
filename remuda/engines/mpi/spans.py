"""Decide which rank hosts which members, and which rows it needs from other ranks."""

import heapq
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from remuda.errors import UserError
from remuda.system.text import count


def spans(size: int, num_ranks: int, speeds: Sequence[float] = ()) -> list[range]:
    """Split the members into one contiguous span per rank.

    Every rank hosts at least one member, and the slowest rank needs the least time that is
    possible: the largest length / speed is as small as it can be. With equal speeds, the default,
    lengths differ by at most one. If the speeds are the lengths of a placement, it stays the same.
    """
    if num_ranks > size:
        raise UserError(
            f"{num_ranks} ranks are more than the {count(size, 'member')} they would host: "
            f"start at most {count(size, 'rank')}"
        )
    speeds = speeds or [1.0] * num_ranks
    lengths = [1] * num_ranks
    # The time that each rank would need with one more member; the first of equal ranks comes first.
    times = [(2 / speed, rank) for rank, speed in enumerate(speeds)]
    heapq.heapify(times)
    for _ in range(size - num_ranks):
        rank = times[0][1]
        lengths[rank] += 1
        heapq.heapreplace(times, ((lengths[rank] + 1) / speeds[rank], rank))
    return [range(a, b) for a, b in pairwise([0, *accumulate(lengths)])]


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
