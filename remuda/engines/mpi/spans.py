"""Which rank hosts which members, and whose rows it needs."""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from remuda.errors import UserError


def spans(size: int, num_ranks: int) -> list[range]:
    """Members split into contiguous spans, one for each rank, whose lengths differ by one at most."""
    if num_ranks > size:
        raise UserError(
            f"{num_ranks} ranks are more than the {size} {'member' if size == 1 else 'members'} they would host: "
            f"start {size} or fewer"
        )
    each, rest = divmod(size, num_ranks)
    starts = [rank * each + min(rank, rest) for rank in range(num_ranks + 1)]
    return [range(a, b) for a, b in pairwise(starts)]


class Delivery(NamedTuple):
    """How one rank comes by the rows that its members take.

    The rows it needs, each once and in the order of their members, are its *pool*; what comes from one rank is a
    stretch of it, because ranks host spans.
    """

    needed: list[int]  # ids of the members in the pool
    incoming: dict[
        int, slice
    ]  # by rank: the stretch of the pool that it fills; also the rank's own
    outgoing: dict[int, list[int]]  # by other rank: the local rows that it needs from here
    places: Tensor  # (members here,) or (members here, K): where in the pool each taken row is


def deliver(source: Tensor, hosts: list[range], rank: int) -> Delivery:
    """The plan of one rank for a table that all ranks know; an entry is the id of the member whose row is taken."""
    source = source.cpu()
    wanted = [torch.unique(source[host.start : host.stop]) for host in hosts]  # ascending
    needed = wanted[rank]
    incoming, outgoing = {}, {}
    for other, host in enumerate(hosts):
        first, last = torch.searchsorted(needed, torch.tensor([host.start, host.stop])).tolist()
        if last > first:
            incoming[other] = slice(first, last)
        mine = wanted[other][
            (wanted[other] >= hosts[rank].start) & (wanted[other] < hosts[rank].stop)
        ]
        if other != rank and len(mine):
            outgoing[other] = (mine - hosts[rank].start).tolist()
    here = source[hosts[rank].start : hosts[rank].stop].contiguous()
    return Delivery(needed.tolist(), incoming, outgoing, torch.searchsorted(needed, here))
