"""Decide which workers MD-GAN's discriminators visit, if there are fewer of them than workers.

C. Hardy, E. Le Merrer, B. Sericola, "MD-GAN: Multi-Discriminator Generative Adversarial Networks
for Distributed Datasets", IPDPS 2019, section VII-4: since discriminators are swapped, a few of
them can use the data of many workers.

Each member, a discriminator, serves a group of workers. A visit lasts from one swap to the next.
"""

from abc import ABC
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple, Self

from remuda.data.batches import Batch, Batches
from remuda.errors import UserError
from remuda.strategies.md_gan_swaps import Swapping
from remuda.system.text import count
from remuda.tensors import random

WORKERS = 10  # as in most of the paper's experiments


class Visit(NamedTuple):
    """The worker that a member visits, and the worker's position in its own stream of batches."""

    worker: int
    rounds_before: int  # rounds of batches that come before those of this round


def split_workers(num_workers: int, num_members: int) -> list[range]:
    """Split the workers into one group per member; the groups' sizes differ by at most one."""
    bounds = [member * num_workers // num_members for member in range(num_members + 1)]
    return [range(first, stop) for first, stop in pairwise(bounds)]


def visit(
    group: range, t: int, swap_every: int, rule: Literal["rotation", "random"], seed: int
) -> Visit:
    """Return which worker of the group a member visits in round t.

    In a rotation, every worker continues its stream where its last visit ended. With random visits,
    the streams of all workers advance in every round.
    """
    if len(group) == 1 or not swap_every:
        return Visit(group[0], t - 1)
    number, round_of_visit = divmod(t - 1, swap_every)
    if rule == "random":
        place = random.key(seed, "visit", group[0], number) % len(group)
        return Visit(group[place], t - 1)
    num_earlier, place = divmod(number, len(group))
    return Visit(group[place], num_earlier * swap_every + round_of_visit)


@dataclass(frozen=True, kw_only=True)
class Visiting(Swapping, ABC):
    """A strategy with M discriminators that visit the N workers in turn."""

    discriminators: int = 0  # M, at most the N = run.members workers; 0 = one per worker
    # With M < N, the worker that a member visits next: the next one of its group, or a random one.
    visits: Literal["rotation", "random"] = "rotation"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_not_negative("discriminators")

    def num_discriminators(self, requested: int) -> int:
        """Return M, the size of the population; ``requested`` is N, or 0 for the default."""
        num_workers = requested or WORKERS
        size = self.discriminators or num_workers
        if size > num_workers:
            raise UserError(
                f"strategy.discriminators={size} is more than the {count(num_workers, 'worker')}, "
                "each of which trains at most one: lower it or raise run.members"
            )
        if size < num_workers and not self.swap_every:
            raise UserError(
                "with strategy.swap_every=0, discriminators never use the data of the other "
                f"{count(num_workers - size, 'worker')}: set strategy.swap_every to at least 1, or "
                "strategy.discriminators to 0"
            )
        return size

    def enlarged(self, requested: int, size: int) -> str:
        """Return the settings for a larger population; ``requested`` is N as it is set now."""
        if not self.discriminators:
            return f"run.members={size}"
        more = "" if size <= (requested or WORKERS) else f" and run.members={size}"
        return f"strategy.discriminators={size}{more}"

    def share_groups(self, num_members: int, requested: int) -> list[range]:
        num_workers = (requested or WORKERS) if self.discriminators else num_members
        return split_workers(num_workers, num_members)

    def draw(self, batches: Batches, t: int, num_batches: int) -> Batch:
        """Return batches of the worker that each member visits in round t."""
        found = [
            visit(group, t, self.swap_every, self.visits, batches.seed) for group in batches.groups
        ]
        firsts = [one.rounds_before * num_batches for one in found]
        return batches.draw_shares([one.worker for one in found], firsts, num_batches)

    def grow(self, times: int, members: int) -> tuple[Self, int]:
        if not self.discriminators:
            return super().grow(times, members)
        grown = replace(self, discriminators=times * self.discriminators)
        return grown, times * (members or WORKERS)

    def shrink(self, size: int, requested: int) -> tuple[Self, int]:
        """Keep the number of workers, which divides the data; only discriminators are lost.

        If every worker has a discriminator, workers are lost with their discriminators, as without
        the setting.
        """
        if self.discriminators in (0, requested or WORKERS):
            return replace(self, discriminators=0), size
        return replace(self, discriminators=size), requested or WORKERS
