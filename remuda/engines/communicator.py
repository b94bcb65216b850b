"""The processes that train one herd together."""

import platform
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor


class Lost(NamedTuple):
    """A rank that is no more, by its number at the start."""

    rank: int
    host: str


class World:
    """Who else is there; in this one, nobody.

    Every process runs the same loop on its own members. Rank 0 alone writes the record and speaks to the user.
    """

    rank: int = 0
    num_ranks: int = 1
    host: str = platform.node()
    local_rank: int = 0  # among the ranks on this host
    num_sharing: int = 1  # ranks whose CPU cores are this one's too, itself included
    is_stopping: bool = False  # whether the run was interrupted, as all ranks know
    origins: Sequence[int] = (0,)  # of the ranks that are left, their numbers at the start
    lost: Sequence[Lost] = ()  # in the order in which they were missed

    @property
    def is_root(self) -> bool:
        return self.rank == 0

    @property
    def origin(self) -> int:
        """This rank's number at the start."""
        return self.origins[self.rank]

    def share(self, facts: Any) -> list[Any]:
        """What every rank says, by rank; facts are what JSON can hold."""
        return [facts]

    def agree(self, number: int) -> int:
        """The largest of all ranks' numbers, once each has given its own."""
        return number

    @contextmanager
    def root_first(self) -> Iterator[None]:
        """Around what rank 0 may have to fetch or to make, and the others then find."""
        if not self.is_root:
            self.agree(0)
        yield
        if self.is_root:
            self.agree(0)

    def halt(self) -> None:
        """After an interruption: the other ranks hear of it, and what was under way between ranks is given up."""
        self.is_stopping = True

    def recover(self) -> None:
        """After RanksLost, which every rank raises then: those that are left are ranks 0, 1, ... in their old order."""

    def conclude(self) -> None:
        """None leaves before all have come to an end. If that cannot be, it is RanksLost for all."""

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
    def exchange(
        self, outgoing: Mapping[int, Tensor], incoming: Mapping[int, Tensor], tag: int
    ) -> None:
        """Send each rank its buffer, and fill the buffers that ranks send to this one."""

    @abstractmethod
    def upcoming(self, source: int) -> tuple[int, int]:
        """Tag and bytes of the next message of a rank, once it is there."""

    @abstractmethod
    def add(self, numbers: Tensor) -> None:
        """Replace float64 numbers in host memory by their sums over all ranks."""
