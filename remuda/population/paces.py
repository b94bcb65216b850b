"""Simulate how long members take for their turns."""

from collections.abc import Callable, Sequence

import torch

from remuda.tensors import random


def durations(seed: int, speeds: Sequence[float]) -> Callable[[int, int], float]:
    """Return a function of a member and the number of its turn.

    With speeds, a turn takes 1 / speed; members beyond the list have the speed 1. Without speeds,
    durations are uniform between 0.5 and 1.5.
    """

    def duration(member: int, number: int) -> float:
        if speeds:
            return 1.0 / speeds[member] if member < len(speeds) else 1.0
        key = torch.tensor(random.key(seed, "duration", member, number))
        return 0.5 + float(random.uniform(key, (1,)))

    return duration
