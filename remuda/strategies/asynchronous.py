"""Define what asynchronous strategies share: members that make turns at their own pace."""

from abc import ABC
from dataclasses import dataclass
from math import inf
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from remuda.data.batches import Batch, Batches
from remuda.engines.racing import Pace, Raced, Runners
from remuda.errors import UserError
from remuda.population.paces import durations
from remuda.strategies.base import Strategy
from remuda.strategies.context import Context, Metrics

SLOWEST = 1e-300  # 1 / speed must be finite: a turn that never ends looks like an idle member


class Real(NamedTuple):
    """The members' endless streams of batches."""

    batches: Batches
    num_batches: int  # per member and round, on average
    first: int = 0  # the first member hosted here

    def of_turn(self, member: int, number: int) -> Batch:
        """Return the batches of a member's turn, if a round has one turn per member on average."""
        first = number * self.num_batches
        return self.batches.draw_row(member - self.first, first, self.num_batches)


@dataclass(frozen=True, kw_only=True)
class Asynchronous(Strategy, ABC):
    """A strategy whose members never wait for each other."""

    # Relative speeds of the first members, for engines that simulate them; others have speed 1.
    # [] = random durations.
    speeds: tuple[float, ...] = ()

    is_asynchronous: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(SLOWEST <= speed < inf for speed in self.speeds):
            raise UserError(
                f"strategy.speeds must be finite numbers above 0, and at least {SLOWEST}, not "
                f"{list(self.speeds)}"
            )

    def draw(self, batches: Batches, t: int, num_batches: int) -> Real:
        return Real(batches, num_batches)

    def pace(self, context: Context) -> Pace:
        """Return the simulated durations of the members' turns."""
        return durations(context.seed, self.speeds)


def mean_losses(
    raced: Raced, before: Runners, losses: dict[str, Tensor]
) -> tuple[Metrics, dict[str, Tensor]]:
    """Return the number of turns in this race as a metric, and the means of their losses.

    A member without a turn keeps its ``losses`` from an earlier race.
    """
    turned = raced.state.members.turns - before.turns
    for name, total in raced.totals.items():
        mean = (total / turned.clamp(min=1)).float()
        losses = losses | {name: torch.where(turned > 0, mean, losses[name])}
    return {"turns": turned.float()}, losses
