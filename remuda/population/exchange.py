"""Random exchanges between members, and members that leave."""

import torch
from torch import Tensor

from remuda.tensors import random


def derangement(key: int, alive: Tensor) -> Tensor:
    """A table (N,) by which every living member receives from another one, each from a different one.

    Uniform over all such tables: random orders are drawn until one leaves nobody in place, which takes 2.7 draws on
    average for any number of members. A lonely member keeps what it has, and so do those that are gone.
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
    """Which of ``size`` members are left (size,) after so many were lost, in an order that the key decides.

    The last one stays: a herd of none has nothing to train.
    """
    order = random.permutation(torch.tensor(key), size)
    alive = torch.ones(size, dtype=torch.bool)
    alive[order[: min(num_lost, size - 1)]] = False
    return alive
