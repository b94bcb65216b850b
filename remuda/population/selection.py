"""Compute fitnesses from losses (lower is better), and select individuals."""

from collections.abc import Callable

import torch
from torch import Tensor

from remuda.tensors import random

# Each function computes an individual's fitness from its losses (..., opponents) and a mask of the
# opponents that are present.
FITNESSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": lambda losses, present: torch.where(present, losses, 0.0).sum(-1) / present.sum(-1),
    "worst": lambda losses, present: torch.where(present, losses, -torch.inf).amax(-1),
    "best": lambda losses, present: torch.where(present, losses, torch.inf).amin(-1),
}


def tournament(fitness: Tensor, present: Tensor, key: Tensor, size: int) -> Tensor:
    """Draw ``size`` of the individuals present; return the index of the fittest of them."""
    # Absent individuals are drawn last.
    draws = torch.where(present, random.uniform(key, fitness.shape), 2.0)
    contenders = torch.argsort(draws, stable=True)[: min(size, len(fitness))]
    scores = fitness[contenders].nan_to_num(torch.inf, torch.inf)
    scores = torch.where(present[contenders], scores, torch.inf)
    return contenders[scores.argmin()]


def fittest(fitness: Tensor, count: int) -> Tensor:
    """Return the indices of the fittest, best first; ties keep their order and NaN comes last."""
    return torch.argsort(fitness.nan_to_num(torch.inf, torch.inf), stable=True)[:count]


def draw_present(draws: Tensor, present: Tensor) -> Tensor:
    """Turn random numbers >= 0 (cells, ...) into places of present individuals.

    ``present`` is (cells, places). All present places are equally likely.
    """
    order = torch.argsort((~present).int(), dim=1, stable=True)  # present individuals first
    numbers = draws.flatten(1) % present.sum(1, keepdim=True)
    return order.gather(1, numbers).reshape(draws.shape)
