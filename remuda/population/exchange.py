"""Draw which members exchange rows, and the order in which members leave."""

import torch
from torch import Tensor

from remuda.tensors import random


def derangement(key: int, alive: Tensor) -> Tensor:
    """Return a table (N,) in which each living member receives from a different other member.

    All these tables are equally likely: random orders are drawn until one leaves no member in
    place. This takes at most 3 draws on average, and 2.7 for large populations. A single living
    member keeps its own row, as do members that have left.
    """
    places = alive.nonzero()[:, 0]
    source = torch.arange(len(alive))
    if len(places) < 2:
        return source
    stream, attempt = torch.tensor(key), 0
    while True:
        order = random.permutation(random.fold(stream, attempt), len(places))
        if not (order == torch.arange(len(places))).any():
            source[places] = places[order]
            return source
        attempt += 1


def survivors(key: int, size: int, num_lost: int) -> Tensor:
    """Return which of ``size`` members remain, (size,), after ``num_lost`` have left.

    The key decides the order in which members leave. The last member always stays, because an
    empty population cannot be trained.
    """
    order = random.permutation(torch.tensor(key), size)
    alive = torch.ones(size, dtype=torch.bool)
    alive[order[: min(num_lost, size - 1)]] = False
    return alive
