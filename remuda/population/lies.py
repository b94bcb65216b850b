"""Falsify messages, to find out what liars can do to a population.

A lie is a pure function of the honest message, a key for random numbers, and a scale. A message is
a change: feedback, or the difference between two sets of weights. Made-up messages are normal noise
with the root mean square of the honest message.

=========  =====================================================================================
sign       the honest message with the opposite sign
scaled     the honest message times the scale
noise      noise, drawn again for every message
collude    noise that is the same for all liars, drawn again for every message
constant   noise that never changes, from a member that does not train (a free-rider); if the
           message is a difference between weights, it is 0
labels     the honest message of a member that trains with the labels c -> classes - 1 - c
=========  =====================================================================================
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from remuda.tensors import random


def made_up(message: Tensor, key: Tensor, scale: float) -> Tensor:
    """Return noise with the root mean square of the message."""
    size = message.float().square().mean().sqrt()
    return (size * random.normal(key, message.shape)).to(message.dtype)


LIES: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "sign": lambda message, key, scale: -message,
    "scaled": lambda message, key, scale: scale * message,
    "noise": made_up,
    "collude": made_up,
    "constant": made_up,
    "labels": lambda message, key, scale: message,
}


def draw_liars(seed: int, size: int, num_liars: int) -> Tensor:
    """Return which of ``size`` members lie, (size,); more liars include the earlier ones."""
    order = random.permutation(torch.tensor(random.key(seed, "liars")), size)
    liars = torch.zeros(size, dtype=torch.bool)
    liars[order[:num_liars]] = True
    return liars


def lie_keys(
    name: str, seed: int, members: Sequence[int], t: int, device: torch.device | str
) -> Tensor:
    """Return the keys of the members' lies in round t, (members,)."""
    if name == "constant":
        return random.keys(seed, "lie", members, device=device)
    who = [0] * len(members) if name == "collude" else members
    return random.keys(seed, "lie", who, t, device=device)


def flip_labels(labels: Tensor, liars: Tensor, num_classes: int) -> Tensor:
    """Return labels (members, ...) in which liars (members,) have the classes in reverse order."""
    liars = liars.reshape(-1, *[1] * (labels.ndim - 1))
    return torch.where(liars, num_classes - 1 - labels, labels)
