"""Facts that other parts of remuda ask a strategy for."""

import math
from typing import NamedTuple

from remuda.tensors.codecs import UNCOMPRESSED, Compressor


class TrafficPlan(NamedTuple):
    """The settings that decide how much MD-GAN and FL-GAN send."""

    num_fake_batches: int = 1  # batches that MD-GAN's server generates per iteration
    epochs: int = 1  # local epochs between two swaps or averagings
    swaps: bool = True  # whether discriminators are swapped at all
    epochs_per_round: int = 1  # local epochs in a round
    num_active: int = 0  # workers that take part in an iteration; 0 = all
    down: Compressor = UNCOMPRESSED  # of messages from the server to members
    up: Compressor = UNCOMPRESSED  # of messages from members to the server
    across: Compressor = UNCOMPRESSED  # of messages from members to members


class Averaging(NamedTuple):
    """How often members average shared tensors, and how much, per generator update."""

    calls: float  # of the verb mean
    bytes: float  # that each rank adds to the sums

    def in_round(self, updates: int) -> "Averaging":
        """Return the sums over a round. Members that average rarely also average at its end."""
        if self.calls >= 1 or not self.calls:
            return Averaging(updates * self.calls, updates * self.bytes)
        number = math.ceil(updates / round(1 / self.calls))
        return Averaging(number, number * self.bytes / self.calls)


class Mixture(NamedTuple):
    """The mixture of generators of one cell's neighbourhood."""

    cell: int
    row: int
    column: int
    weights: dict[int, float]  # by cell id; the cell itself comes first
    distance: float  # from real images, in the round of this state
    is_alive: bool
    is_best: bool  # whether the model samples from this mixture
