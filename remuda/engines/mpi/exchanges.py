"""What the end of a turn causes in a race on ranks: with a server, or between neighbours."""

import torch

from remuda.engines.communicator import Posted
from remuda.engines.mpi.letters import Kind, Letter, Sealed
from remuda.engines.mpi.races import RankRace
from remuda.engines.racing import (
    in_causal_order,
    next_to_send,
    num_listeners,
    one,
    put,
    those_that_stay_busy,
)
from remuda.tensors import trees
from remuda.tensors.trees import Tree

MOST_UNSENT = 4  # messages to one rank; a rank that receives nothing must not fill the memory


class HubRace(RankRace):
    """A race with a server, which is rank 0."""

    def begin(self) -> None:
        self.busy = those_that_stay_busy(self.busy, self.turns, self.exchange.num_busy)
        for member in self.span:
            if member in self.busy:
                self.start_turn(member)
        self._fill()

    def end_turn(self, member: int) -> None:
        _, message, _ = self.bench.taken(member)
        if self.communicator.is_root:
            self._arrive(member, message)
        else:
            number = self.turns[member]
            self.send(Letter(Kind.RESULT, member, number, tree=message), 0)

    def handle(self, source: int, letter: Letter) -> None:
        kind, member, number, _, tree = letter
        if kind is Kind.RESULT and member in self.busy:
            self._arrive(member, tree)
        elif kind in (Kind.MAIL, Kind.COUNTED):
            if number > self.turns[member]:
                self.commit(member)
            if kind is Kind.MAIL:
                self._deliver(member, tree)
            else:
                self.busy.discard(member)
        elif kind is Kind.OVER:
            self.is_over = True

    def _arrive(self, member: int, message: Tree) -> None:
        """Let the server apply a result, and send new mail."""
        self.traffic["up"] += trees.num_bytes(message)
        self.server = self.exchange.apply(self.server, member, self.turns[member], message)
        self.busy.discard(member)
        if self.home[member] == self.communicator.rank:
            self.commit(member)
        else:
            self.turns[member] += 1
        target = self._write(self._idle())
        if target != member and self.home[member] != self.communicator.rank:
            self.send(Letter(Kind.COUNTED, member, self.turns[member]), self.home[member])
        self.arrive(member, [target])

    def _idle(self) -> list[int]:
        return [m for m, rank in self.home.items() if m not in self.busy and rank not in self._gone]

    def _write(self, idle: list[int]) -> int:
        """Send mail to the idle member that is next, and return the member."""
        target = next_to_send(self.turns, idle)
        letter = self.exchange.write(self.server, target, self.turns[target])
        self.traffic["down"] += trees.num_bytes(letter)
        self.busy.add(target)
        if self.home[target] == self.communicator.rank:
            self._deliver(target, letter)
        else:
            number = self.turns[target]
            self.send(Letter(Kind.MAIL, target, number, tree=letter), self.home[target])
        return target

    def _deliver(self, member: int, mail: Tree) -> None:
        put(self.mail, member - self.span.start, mail)
        self.start_turn(member)

    def lose(self, ranks: frozenset[int]) -> None:
        super().lose(ranks)
        self._fill()

    def _fill(self) -> None:
        """Let idle members take over the work of lost ones."""
        if not self.communicator.is_root:
            return
        while len(self.busy) < self.exchange.num_busy and (idle := self._idle()):
            self._write(idle)


class BoardRace(RankRace):
    """A race in which the ranks of neighbours send each other their posts."""

    def begin(self) -> None:
        table = self.exchange.table.tolist()
        self._num_listeners = num_listeners(self.exchange.table)
        self._around = {member: table[member] for member in self.span}
        self._listeners: dict[int, set[int]] = {}  # by member hosted here: ranks of its neighbours
        for member, around in enumerate(table):
            for other in around:
                if other in self.span and member not in self.span:
                    self._listeners.setdefault(other, set()).add(self.home[member])
        self._ended: set[int] = set()
        self._held: set[tuple[int, int]] = set()  # (rank, member): posts that wait for a slow rank
        self._turns_before = dict(self.turns)
        for member in self.span:
            row = member - self.span.start
            mail = one(self.mail, row)
            for slot, other in enumerate(self._around[member]):
                post = trees.map(lambda leaf, s=slot: leaf[:, s].clone(), mail)
                self._view(other, self.seen[member][slot], post)
        for member in self.span:
            post = self._post(member)
            self._view(member, self.turns[member], post)
            if self.is_first:
                self._publish(member, post)
        for member in self.span:
            self.start_turn(member)

    def _post(self, member: int) -> Tree:
        return trees.map(torch.clone, self.exchange.post(one(self.rows, member - self.span.start)))

    def _read(self, member: int) -> Tree:
        """Return the newest known post of a member."""
        turns, post = self.views[member]
        if isinstance(post, Sealed):
            post = post.open(self.device)
            self.views[member] = turns, post
        return post

    def _view(self, member: int, turns: int, post: Tree) -> None:
        """Keep a post if it is newer than the known one."""
        if member not in self.views or turns > self.views[member][0]:
            self.views[member] = turns, post

    def _publish(self, member: int, post: Tree) -> None:
        ranks = self._listeners.get(member, set()) - self._gone
        slow = {rank for rank in ranks if self.communicator.num_unsent(rank) >= MOST_UNSENT}
        self._held |= {(rank, member) for rank in slow}
        self._held -= {(rank, member) for rank in ranks - slow}
        letter = Letter(Kind.POST, member, self.turns[member], self.first, post)
        self.send(letter, *(ranks - slow))

    def attend(self) -> None:
        """Send posts that were held back, as they are now."""
        for rank, member in list(self._held):
            if rank in self._gone:
                self._held.discard((rank, member))
            elif self.communicator.num_unsent(rank) < MOST_UNSENT:
                self._held.discard((rank, member))
                turns, post = self.views[member]
                self.send(Letter(Kind.POST, member, turns, self.first, post), rank)

    def end_turn(self, member: int) -> None:
        facts = self.seen[member]
        self.commit(member)
        post = self._post(member)
        self._view(member, self.turns[member], post)
        # A turn must arrive before those that use its post.
        if self.communicator.is_root:
            self.arrive(member, facts)
        else:
            self.send(Letter(Kind.DONE, member, facts=facts), 0)
        self._publish(member, post)
        around = self._around[member]
        posts = [self._read(other) for other in around]
        self.seen[member] = [self.views[other][0] for other in around]
        mail = trees.map(lambda *leaves: torch.cat(leaves)[None], *posts)
        put(self.mail, member - self.span.start, mail)
        self.start_turn(member)

    def arrive(self, member: int, facts: list[int]) -> None:
        super().arrive(member, facts)
        post = trees.num_bytes(self.views[self.span.start][1])
        self.traffic["across"] += self._num_listeners[member] * post

    def handle(self, source: int, letter: Letter) -> None:
        if letter.kind is Kind.POST and letter.facts == self.first:  # posts of this engine
            self._view(letter.member, letter.number, letter.tree)
        elif letter.kind is Kind.DONE:
            self.arrive(letter.member, letter.facts)
        elif letter.kind is Kind.LAST:
            self._ended.add(source)
            self.is_over = self._ended >= set(self.others())
        elif letter.kind is Kind.OVER:
            self.send(Letter(Kind.LAST), 0)
            self.is_over = True

    def finish(self) -> None:
        for event in self._events:
            if isinstance(event, Posted):  # at the end of a race, only posts are left
                self._receive(event)
        if self.communicator.is_root and not self._gone:
            table = self.exchange.table
            self.arrivals = in_causal_order(self.arrivals, self._turns_before, table)

    def end(self) -> None:
        self.is_over = self._ended >= set(self.others())

    def lose(self, ranks: frozenset[int]) -> None:
        super().lose(ranks)
        if self._is_closed:
            self.end()
