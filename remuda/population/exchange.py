"""Decide which members exchange rows, which batches they receive, and in which order they leave."""

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


def batch_places(alive: Tensor, k: int) -> Tensor:
    """Return the indices (N, 2) of each worker's X_g and X_d among the k batches of MD-GAN.

    As in section IV-B1 of its paper, the n-th remaining worker gets X_g = X(n mod k + 1) and
    X_d = X((n + 1) mod k + 1). These are two different batches if k > 1.
    """
    n = alive.long().cumsum(0)
    return torch.stack([n % k, (n + 1) % k], 1)
