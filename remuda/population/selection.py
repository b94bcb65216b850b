"""Who is fit, who is chosen, who stays: an evolution's arithmetic on losses, of which the least is the best."""

from collections.abc import Callable

import torch
from torch import Tensor

from remuda.tensors import random

# Of one individual's losses against all its opponents, (..., opponents); absent ones do not count.
FITNESSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": lambda losses, present: torch.where(present, losses, 0.0).sum(-1) / present.sum(-1),
    "worst": lambda losses, present: torch.where(present, losses, -torch.inf).amax(-1),
    "best": lambda losses, present: torch.where(present, losses, torch.inf).amin(-1),
}


def tournament(fitness: Tensor, present: Tensor, key: Tensor, size: int) -> Tensor:
    """The number of the fittest among ``size`` different contenders, drawn from those present."""
    draws = torch.where(
        present, random.uniform(key, fitness.shape), 2.0
    )  # absent ones are drawn last
    contenders = torch.argsort(draws, stable=True)[: min(size, len(fitness))]
    scores = torch.where(
        present[contenders], fitness[contenders].nan_to_num(torch.inf, torch.inf), torch.inf
    )
    return contenders[scores.argmin()]


def fittest(fitness: Tensor, count: int) -> Tensor:
    """The numbers of the fittest, best first; of equals the earlier ones, and NaN is worse than anything."""
    return torch.argsort(fitness.nan_to_num(torch.inf, torch.inf), stable=True)[:count]


def draw_present(draws: Tensor, present: Tensor) -> Tensor:
    """For every random number >= 0 (cells, ...) the place of somebody present (cells, places), all equally likely."""
    order = torch.argsort((~present).int(), dim=1, stable=True)  # those present first
    numbers = draws.flatten(1) % present.sum(1, keepdim=True)
    return order.gather(1, numbers).reshape(draws.shape)
