"""Run members without a common pace: each one starts its next turn as soon as it has news.

A member works on its *mail*. When its turn ends, an exchange takes the result and sends new mail,
which depends on everything that has arrived until then. Nobody waits for a slower member.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from remuda.tensors import trees
from remuda.tensors.trees import Tree

# turn(engine, rows, mail, number) runs turn ``number`` of the only member of this engine. It
# returns new rows, a message for a Hub, and a dict of numbers, such as losses. All trees have a
# leading axis of length 1.
Turn = Callable[..., tuple[Tree, Tree, dict[str, Tensor]]]
Pace = Callable[[int, int], float]  # pace(member, number): simulated duration of a turn, > 0


class Hub(NamedTuple):
    """Messages go to the server, which changes its state and sends new mail."""

    apply: Callable[[Any, int, int, Tree], Any]  # apply(server, member, number, message) -> server
    write: Callable[[Any, int, int], Tree]  # write(server, member, number): mail for a turn
    # Members that work at the same time, if so many are left. A race begins by sending mail to idle
    # members or by stopping busy ones, because members may have been lost or added since the last.
    num_busy: int


class Board(NamedTuple):
    """Every member posts a part of its row. New mail holds the newest posts of its neighbours."""

    post: Callable[[Tree], Tree]  # of rows
    table: Tensor  # (size, s): the neighbours of each member


class Runners(NamedTuple):
    """Members that run at their own pace; every leaf has one row per member."""

    rows: Tree  # after each member's last complete turn
    mail: Tree  # what each member works on now
    turns: Tensor  # (members,) complete turns
    seen: Tensor  # (members, s) Board: the neighbours' complete turns when they posted the mail
    clock: Tensor  # (members,) simulated time at which the turn now under way ends; inf: idle


class Race(NamedTuple):
    """The state of a race, including everything that is in flight."""

    server: Any  # () with a Board; only the server's process has it
    members: Runners


class Arrival(NamedTuple):
    """A turn that ended."""

    member: int
    # Hub: the member that received new mail because of this arrival. Board: which turn of each
    # neighbour the mail of this turn came from, as in Runners.seen.
    facts: list[int]
    seconds: float = 0.0  # since the start of the race; on one device, the simulated time


Later = Iterable[Arrival] | None  # the arrivals of all later races; None: not known yet


class Raced(NamedTuple):
    """The result of a race."""

    state: Race
    totals: dict[str, Tensor]  # (members,): sums of the turns' numbers over the turns that ended
    # Only the server's process has these two.
    arrivals: list[Arrival]  # in their order
    traffic: Counter[str]  # bytes from member to server (up), back (down), and to members (across)


def start(
    server: Any,
    rows: Tree,
    mail: Tree,
    members: Tensor,  # (n,): those hosted here
    pace: Pace,
    *,
    size: int,
    num_busy: int,
    num_neighbours: int = 0,  # on a Board
) -> Race:
    """Return the state in which the first ``num_busy`` of all members begin their first turns."""
    ends = [pace(member, 0) if member < num_busy else torch.inf for member in range(size)]
    clock = torch.tensor(ends, dtype=torch.float64)[members.cpu()]
    turns = torch.zeros_like(members)
    seen = turns[:, None].expand(-1, num_neighbours).contiguous()
    return Race(server, Runners(rows, mail, turns, seen, clock.to(members.device)))


def in_causal_order(
    arrivals: Sequence[Arrival], turns: Mapping[int, int], table: Tensor
) -> list[Arrival]:
    """Sort the arrivals of a Board: a turn comes after the turns whose posts were its mail.

    Reports from different ranks may overtake each other. ``turns`` were complete before the race.
    """
    done, waiting, ordered = dict(turns), list(arrivals), []

    def is_ready(arrival: Arrival) -> bool:
        around = table[arrival.member].tolist()
        return all(done[other] >= seen for other, seen in zip(around, arrival.facts, strict=True))

    while waiting:
        ready = next((place for place, one in enumerate(waiting) if is_ready(one)), None)
        assert ready is not None, "a turn used a post that nobody reported"
        ordered.append(waiting.pop(ready))
        done[ordered[-1].member] += 1
    return ordered


def num_listeners(table: Tensor) -> list[int]:
    """Return, for each member, the number of other members that it posts to."""
    everyone = torch.arange(len(table))
    is_other = table.cpu() != everyone[:, None]
    return torch.bincount(table.cpu()[is_other], minlength=len(table)).tolist()


def next_to_send(turns: Mapping[int, int] | Sequence[int], idle: Sequence[int]) -> int:
    """Return the idle member that gets new mail: the one with the fewest turns."""
    return min(idle, key=lambda member: (turns[member], member))


def those_that_stay_busy(
    busy: Iterable[int], turns: Mapping[int, int] | Sequence[int], num_busy: int
) -> set[int]:
    """Return the members that continue if only ``num_busy`` may: those with the fewest turns."""
    return set(sorted(busy, key=lambda member: (turns[member], member))[:num_busy])


def one(rows: Tree, i: int) -> Tree:
    """Return row i with a leading axis of length 1."""
    return trees.map(lambda leaf: leaf[i : i + 1], rows)


def put(rows: Tree, i: int, row: Tree) -> None:
    """Overwrite row i; ``row`` has a leading axis of length 1."""
    trees.map(lambda leaf, new: leaf[i].copy_(new[0]), rows, row)


class Totals:
    """Adds the numbers that turns return."""

    def __init__(self, size: int, device: torch.device):
        self.size, self.device = size, device
        self.sums: dict[str, Tensor] = {}

    def add(self, row: int, numbers: dict[str, Tensor]) -> None:
        """Add the numbers of one turn, each (1,)."""
        for name, value in numbers.items():
            if name not in self.sums:
                self.sums[name] = torch.zeros(self.size, dtype=torch.float64, device=self.device)
            self.sums[name][row] += value[0]
