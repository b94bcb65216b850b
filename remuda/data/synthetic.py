"""Draw points in the plane that reveal lost modes: Gaussians on a ring or on a grid.

The proportions are those of the literature: the ring's radius is 100 standard deviations, and the
grid's spacing is 40. All points are scaled into (-1, 1), the range of generators that end with a
tanh.
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
    """Describe an equal mixture of round Gaussians; a point's label is the index of its centre."""

    centres: tuple[tuple[float, float], ...]
    std: float  # standard deviation of each coordinate, in the same units as the centres


_RING = tuple((0.8 * math.cos(k * math.pi / 4), 0.8 * math.sin(k * math.pi / 4)) for k in range(8))
_GRID = tuple((0.4 * column, 0.4 * row) for row in range(-2, 3) for column in range(-2, 3))
MODES = {"ring": Modes(_RING, 0.008), "grid": Modes(_GRID, 0.01)}


def points(name: str, split: Split) -> tuple[Tensor, Tensor]:
    """Return points (M, 2, 1, 1) and the mode of each point (M,).

    Every call returns the same points; the two splits are different draws.
    """
    modes = MODES[name]
    count = POINTS_PER_MODE[split] * len(modes.centres)
    labels = torch.arange(count) % len(modes.centres)
    noise = random.normal(torch.tensor(random.key(0, f"data/{name}/{split}")), (count, 2))
    return (torch.tensor(modes.centres)[labels] + modes.std * noise).reshape(count, 2, 1, 1), labels
