"""Points in the plane that make a lost mode visible: Gaussians on a ring or on a grid.

The proportions are the customary ones (radius to deviation 100 to 1 on the ring, spacing to deviation 40 to 1
on the grid), scaled into (-1, 1), where generators with a tanh can reach them.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from remuda.data.config import Split
from remuda.tensors import random

POINTS_PER_MODE = {"train": 2500, "test": 500}


@dataclass(frozen=True)
class Modes:
    """An equal mixture of round Gaussians; the label of a point is the place of its mode in centres."""

    centres: tuple[tuple[float, float], ...]
    std: float


MODES = {
    "ring": Modes(
        tuple((0.8 * math.cos(k * math.pi / 4), 0.8 * math.sin(k * math.pi / 4)) for k in range(8)),
        0.008,
    ),
    "grid": Modes(
        tuple((0.4 * column, 0.4 * row) for row in range(-2, 3) for column in range(-2, 3)), 0.01
    ),
}


def points(name: str, split: Split) -> tuple[Tensor, Tensor]:
    """Points (M, 2, 1, 1) and the mode of each (M,); the same on every call, another draw for each split."""
    modes = MODES[name]
    count = POINTS_PER_MODE[split] * len(modes.centres)
    labels = torch.arange(count) % len(modes.centres)
    noise = random.normal(torch.tensor(random.key(0, f"data/{name}/{split}")), (count, 2))
    return (torch.tensor(modes.centres)[labels] + modes.std * noise).reshape(count, 2, 1, 1), labels
