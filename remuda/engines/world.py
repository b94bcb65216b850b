"""The processes that train one herd together."""

import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from torch import Tensor


class World:
    """Who else is there; in this one, nobody.

    Every process runs the same loop on its own members. Rank 0 alone writes the record and speaks to the user.
    """

    rank: int = 0
    num_ranks: int = 1
    host: str = platform.node()
    local_rank: int = 0  # among the ranks on this host
    num_sharing: int = 1  # ranks whose CPU cores are this one's too, itself included

    @property
    def is_root(self) -> bool:
        return self.rank == 0

    def share(self, facts: Any) -> list[Any]:
        """What every rank says, by rank; facts are what JSON can hold."""
        return [facts]

    def agree(self, number: int) -> int:
        """The largest of all ranks' numbers, once each has given its own."""
        return number

    def halt(self) -> None:
        """After an interruption: the other ranks hear of it, and what was under way between ranks is given up."""

    def __enter__(self):
        return self

    def __exit__(self, *exception: Any) -> None: ...


class Transport(World, ABC):
    """A world of several, with bytes between them.

    Buffers are contiguous tensors of bytes, in host memory unless the transport can do better. Sending returns at
    once; a buffer that was given away must not be changed.
    """

    @abstractmethod
    def arrange(self, grid: tuple[int, int]) -> None:
        """Take up the places of a torus."""

    @abstractmethod
    def exchange(self, outgoing: Mapping[int, Tensor], incoming: Mapping[int, Tensor], tag: int) -> None:
        """Send each rank its buffer, and fill the buffers that ranks send to this one."""

    @abstractmethod
    def upcoming(self, source: int) -> tuple[int, int]:
        """Tag and bytes of the next message of a rank, once it is there."""

    @abstractmethod
    def add(self, numbers: Tensor) -> None:
        """Replace float64 numbers in host memory by their sums over all ranks."""
