"""Compute settings that change during training: rates, betas, penalties and moving averages.

Every value depends only on the round and on the position in the round. A resumed run therefore
continues its schedule exactly, the state needs no counter, and an optimizer that is reset or
averaged does not disturb the schedule.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Annealing = Literal["none", "linear", "cosine"]
Betas = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The first and the final values of the settings that change.

    Annealed settings move from their first values to their final ones. A round is the unit of time,
    so rounds may be fractions.
    """

    annealing: Annealing = "none"
    annealing_rounds: float = 0.0  # rounds until the final values
    warmup_rounds: float = 0.0  # rounds in which the learning rates rise from 0
    final_lr: float = 1.0  # fraction of the learning rates
    generator_betas: Betas = (0.5, 0.999)
    discriminator_betas: Betas = (0.5, 0.999)
    final_betas: Betas = ()  # of both players; empty = unchanged
    final_penalty: float = 1.0  # fraction of the weights of all penalties
    ema_images: float = 0.0  # half-life of the moving average, in images; 0 = none
    ema_rampup: float = 0.0  # largest half-life as a fraction of the images so far; 0 = no limit

    def values(
        self, t: int, num_steps: int, updates_per_step: int, images_per_update: int
    ) -> dict[str, Tensor]:
        """Return the values of all scheduled settings, for every step of round t.

        The names are those of ``Overrides``. Each value is float32 with a leading axis of steps. A
        step contains ``updates_per_step`` updates of the generator, which generates
        ``images_per_update`` images for each of them. The values do not change within a step.
        """
        # Computed in float64, so that a long run's position is as exact as a short one's.
        rounds = t - 1 + torch.arange(num_steps, dtype=torch.float64) / num_steps
        values = self._annealed(rounds)
        if self.warmup_rounds:
            warmth = (rounds / self.warmup_rounds).clamp(max=1)
            values["lr_factor"] = values.get("lr_factor", 1.0) * warmth
        if self.ema_images:
            images = rounds * num_steps * updates_per_step * images_per_update
            values["ema_weight"] = self._ema_weight(images, images_per_update)
        return {name: value.float() for name, value in values.items()}

    def _annealed(self, rounds: Tensor) -> dict[str, Tensor]:
        if self.annealing == "none":
            return {}
        progress = (rounds / self.annealing_rounds).clamp(max=1)
        if self.annealing == "cosine":
            progress = (1 - torch.cos(math.pi * progress)) / 2
        values = {}
        if self.final_lr != 1:
            values["lr_factor"] = 1 + progress * (self.final_lr - 1)
        if self.final_penalty != 1:
            values["penalty_factor"] = 1 + progress * (self.final_penalty - 1)
        if self.final_betas:
            final = torch.tensor(self.final_betas, dtype=torch.float64)
            for name in ("generator_betas", "discriminator_betas"):
                first = torch.tensor(getattr(self, name), dtype=torch.float64)
                values[name] = first + progress[:, None] * (final - first)  # (steps, 2)
        return values

    def _ema_weight(self, images: Tensor, images_per_update: int) -> Tensor:
        """Return the weight of the newest generator after this many images."""
        half_life = torch.full_like(images, self.ema_images)
        if self.ema_rampup:
            half_life = half_life.minimum(self.ema_rampup * images)
        # expm1 because 1 - decay is small; a half-life of 0 gives the weight 1.
        return -torch.expm1(-math.log(2) * images_per_update / half_life)


def decay(images_per_update: int, half_life: float) -> float:
    """Return the decay of a moving average with this half-life in images."""
    return 0.5 ** (images_per_update / half_life)
