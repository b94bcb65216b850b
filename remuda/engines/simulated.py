"""Simulate a race on one device: with a deterministic clock, or in a recorded order."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import inf

import torch

from remuda.engines.base import Engine
from remuda.engines.racing import (
    Arrival,
    Board,
    Hub,
    Later,
    Pace,
    Race,
    Raced,
    Runners,
    Totals,
    Turn,
    next_to_send,
    num_listeners,
    one,
    put,
    those_that_stay_busy,
)
from remuda.errors import UserError
from remuda.tensors import trees
from remuda.tensors.trees import Tree

Posts = dict[tuple[int, int], Tree]  # by member and its complete turns


class Simulation:
    """A race whose turns run one after the other."""

    def __init__(
        self,
        single: Callable[[int], Engine],  # returns an engine that hosts only this member
        turn: Turn,
        exchange: Hub | Board,
        state: Race,
        pace: Pace,
        device: torch.device,
    ):
        self.single, self.turn, self.exchange, self.pace = single, turn, exchange, pace
        self.server, members = state
        self.rows, self.mail = trees.map(torch.clone, (members.rows, members.mail))
        self.turns, self.seen, self.clock = (leaf.tolist() for leaf in members[2:])
        self.totals, self.device = Totals(len(self.turns), device), device
        self.arrivals: list[Arrival] = []
        self.traffic: Counter[str] = Counter()
        if isinstance(exchange, Board):
            self.num_listeners = num_listeners(exchange.table)
            self.table: list[list[int]] = exchange.table.tolist()

    def run(self, count: int) -> Raced:
        """Run turns in the order of the simulated clock."""
        if isinstance(self.exchange, Hub):
            self._settle(self.exchange)
        for _ in range(count):
            self._end_turn(self.clock.index(min(self.clock)))
        return self._result()

    def _settle(self, hub: Hub) -> None:
        """Let as many members work as should work at the same time."""
        busy = [member for member, end in enumerate(self.clock) if end < inf]
        now = min((self.clock[member] for member in busy), default=0.0)
        stay = those_that_stay_busy(busy, self.turns, hub.num_busy)
        self.clock = [end if m in stay else inf for m, end in enumerate(self.clock)]
        while idle := [m for m in range(len(self.turns)) if m not in stay]:
            if len(stay) >= hub.num_busy:
                break
            stay.add(target := next_to_send(self.turns, idle))
            self._write(hub, target, now)

    def _idle(self) -> list[int]:
        return [member for member, end in enumerate(self.clock) if end == inf]

    def _write(self, hub: Hub, target: int, now: float) -> None:
        """Send mail to a member."""
        mail = hub.write(self.server, target, self.turns[target])
        put(self.mail, target, mail)
        self.traffic["down"] += trees.num_bytes(mail)
        self.clock[target] = now + self.pace(target, self.turns[target])

    def replay(self, order: Sequence[Arrival], posts: Posts, later: Later = None) -> Raced:
        """Run turns in a recorded order. ``posts`` holds those of earlier races.

        With a Board, the arrivals of later races tell which mail was in flight at the end, and
        which posts are still needed. If they are not known (None), all posts are kept.
        """
        if isinstance(self.exchange, Hub):
            for arrival in order:
                self._check(arrival)
                self._end_turn(arrival.member, target=arrival.facts[0])
            return self._result()
        self._keep_posts(posts)
        for arrival in order:
            member = arrival.member
            self._read(member, self._places(arrival), posts)
            self._end_turn(member)
            posts[member, self.turns[member]] = self._post(member)
        if later is not None:
            self._look_ahead(later, posts)
        return self._result()

    def _check(self, arrival: Arrival) -> None:
        """Raise if this arrival cannot belong to a race of these members."""
        size, facts = len(self.turns), arrival.facts
        if isinstance(self.exchange, Hub):
            is_possible = len(facts) == 1 and facts[0] < size
        else:
            is_possible = len(facts) == self.exchange.table.shape[1]
        if arrival.member >= size or not is_possible:
            raise UserError(
                f"cannot repeat the recorded order: the recorded arrival {list(arrival[:2])} does "
                "not fit this run, which has other members or neighbourhoods; use the config.toml "
                "of the recorded run as the configuration"
            )

    def _places(self, arrival: Arrival) -> list[tuple[int, int]]:
        """Return which posts a turn has used."""
        self._check(arrival)
        return list(zip(self.table[arrival.member], arrival.facts, strict=True))

    def _look_ahead(self, later: Iterable[Arrival], posts: Posts) -> None:
        """Give the members the mail of their next turns, and forget posts that nobody needs.

        A member never uses an older post than before, so a look at the next few turns is enough.
        """
        everyone, needed = range(len(self.turns)), set[tuple[int, int]]()
        missing, behind = set(everyone), set(everyone)
        for arrival in later:
            places = self._places(arrival)
            needed.update(places)
            if arrival.member in missing:
                self._read(arrival.member, places, posts)
                missing.remove(arrival.member)
            if all(number >= self.turns[member] for member, number in places):
                behind.discard(arrival.member)  # it has seen everything that is known now
            if not behind:
                break
        for place in posts.keys() - needed:
            del posts[place]

    def _keep_posts(self, posts: Posts) -> None:
        """Keep the members' present posts and those in their mail, which may be older."""
        for member, around in enumerate(self.table):
            posts[member, self.turns[member]] = self._post(member)
            mail = one(self.mail, member)
            for slot, place in enumerate(zip(around, self.seen[member], strict=True)):
                if place not in posts:
                    posts[place] = trees.map(lambda leaf, s=slot: leaf[:, s].clone(), mail)

    def _read(self, member: int, places: list[tuple[int, int]], posts: Posts) -> None:
        """Let a member work on these posts."""
        if any(place not in posts for place in places):
            raise UserError(
                "cannot repeat the recorded order, because it uses a message that this replay does "
                "not have: replay the run from its first round, with its own config.toml"
            )
        put(self.mail, member, _join([posts[place] for place in places]))
        self.seen[member] = [turns for _, turns in places]

    def _end_turn(self, member: int, target: int | None = None) -> None:
        number, now = self.turns[member], self.clock[member]
        rows, mail = one(self.rows, member), one(self.mail, member)
        rows, message, numbers = self.turn(self.single(member), rows, mail, number)
        put(self.rows, member, rows)
        self.totals.add(member, numbers)
        self.turns[member] += 1
        self.clock[member] = inf
        if isinstance(self.exchange, Hub):
            target = next_to_send(self.turns, self._idle()) if target is None else target
            self.server = self.exchange.apply(self.server, member, number, message)
            self.traffic["up"] += trees.num_bytes(message)
            self._write(self.exchange, target, now)
            self.arrivals.append(Arrival(member, [target], now))
        else:
            self.arrivals.append(Arrival(member, self.seen[member], now))
            post = self.exchange.post(one(self.rows, member))
            self.traffic["across"] += self.num_listeners[member] * trees.num_bytes(post)
            around = self.table[member]
            self.seen[member] = [self.turns[other] for other in around]
            put(self.mail, member, _join([self._post(other) for other in around]))
            self.clock[member] = now + self.pace(member, self.turns[member])

    def _post(self, member: int) -> Tree:
        assert isinstance(self.exchange, Board)
        return trees.map(torch.clone, self.exchange.post(one(self.rows, member)))

    def _result(self) -> Raced:
        turns, seen = (torch.tensor(each, device=self.device) for each in (self.turns, self.seen))
        clock = torch.tensor(self.clock, dtype=torch.float64, device=self.device)
        seen = seen.reshape(len(turns), -1).long()
        members = Runners(self.rows, self.mail, turns, seen, clock)
        return Raced(Race(self.server, members), self.totals.sums, self.arrivals, self.traffic)


def _join(posts: list[Tree]) -> Tree:
    """Join posts (1, ...) to the mail of one member, (1, s, ...)."""
    return trees.map(lambda *leaves: torch.cat(leaves)[None], *posts)
