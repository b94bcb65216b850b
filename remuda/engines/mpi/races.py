"""Race on the ranks of an MPI job: every rank computes turns, and exchanges messages meanwhile.

    Hub     worker -> rank 0    RESULT    a turn's message
            rank 0 -> worker    MAIL      the turn counts; the mail for the next one
                                COUNTED   the turn counts; there is no mail yet
    Board   rank -> rank        POST      a member's new post
            rank -> rank 0      DONE      a turn has ended, with which mail
    both    rank 0 -> rank      PING      the race ends soon: are you there?
            rank -> rank 0      PONG      yes
            rank 0 -> rank      OVER      all ranks are there: the race ends now
            rank -> rank 0      LAST      with a Board: no more turns

A rank that does not answer PING, because it is slow or cut off, does not stop the others: the race
continues until it answers or is lost. With a Hub, a turn counts when the server has applied it.
Results that come too late for a race are sent again in the next one.
"""

import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

import torch

from remuda.engines.communicator import Communicator, Posted
from remuda.engines.mpi.bench import Bench, Work
from remuda.engines.mpi.letters import Kind, Letter, decode, encode
from remuda.engines.racing import Arrival, Race, Raced, Runners, Totals, one, put
from remuda.tensors import trees

TAGS = 1 << 14  # tags that tell races apart; MPI guarantees twice as many
# A rank that computes looks for messages after at most so many seconds. On a slow rank, looking
# takes long, so it looks less often: at most for a tenth of the time. Rank 0 never rests so long.
LONGEST, LONGEST_IF_SLOW = 0.01, 0.5


class Place(NamedTuple):
    """What the races of an engine share on this rank."""

    communicator: Communicator
    bench: Bench
    spans: list[range]
    # By neighbour: its complete turns, and its newest post, which may be Sealed.
    views: dict[int, tuple[int, Any]]
    device: torch.device
    first: int  # the number of this engine's first race


class RankRace(ABC):
    """One rank's part of a race. The subclasses know what the end of a turn causes."""

    def __init__(
        self,
        place: Place,
        turn: Callable[..., Any],  # turn(member, number, rows, mail)
        exchange: Any,  # a Hub or a Board
        state: Race,
        count: int,
    ):
        self.communicator, self.bench, spans, self.views, device, self.first = place
        self.turn, self.exchange, self.count, self.device = turn, exchange, count, device
        number = self.communicator.num_races
        self.tag, self.is_first = number % TAGS, number == self.first
        self.server, members = state
        self.rows, self.mail = trees.map(torch.clone, (members.rows, members.mail))
        self.span = spans[self.communicator.rank]
        numbers = [leaf.tolist() for leaf in members[2:]]
        own = [(m, *facts) for m, *facts in zip(self.span, *numbers, strict=True)]
        everyone = [fact for part in self.communicator.all_gather(own) for fact in part]
        self.turns: dict[int, int] = {member: turns for member, turns, _, _ in everyone}
        self.seen: dict[int, list[int]] = {member: seen for member, _, seen, _ in own}
        self.busy = {member for member, _, _, end in everyone if end != inf}
        self.waiting: set[int] = set()  # members whose turns are being computed here
        self.totals = Totals(len(self.span), device)
        self.arrivals: list[Arrival] = []
        self.traffic: Counter[str] = Counter()
        self.is_over, self._began = False, time.perf_counter()
        self.home = {m: rank for rank, span in enumerate(spans) for m in span}
        self._events: deque[int | Posted] = deque()  # members whose turns have ended, and messages
        self._gone: set[int] = set()  # lost ranks
        self._asked, self._is_closed, self._present = False, False, set[int]()
        self._is_ending = False  # whether rank 0 has said that the race ends soon

    def run(self) -> Raced:
        """Race until enough turns have arrived and all ranks are there."""
        self.begin()
        quiet = time.perf_counter()
        while not self.is_over:
            began = time.perf_counter()
            self._collect()
            cost = time.perf_counter() - began
            has_news = bool(self._events)
            if has_news:
                self._handle_event(self._events.popleft())
            self.attend()
            if self.communicator.absent - self._gone:
                self.lose(self.communicator.absent - self._gone)
            if self.communicator.is_root and not (self.is_over or self._is_closed):
                self._close()
            if has_news:
                quiet = time.perf_counter()
            elif not self.is_over:
                self._rest(time.perf_counter() - quiet, cost)
        self.finish()
        return self._result()

    @abstractmethod
    def begin(self) -> None:
        """Start the turns of the busy members hosted here."""

    @abstractmethod
    def end_turn(self, member: int) -> None:
        """Handle the end of a turn that was computed here."""

    @abstractmethod
    def handle(self, source: int, letter: Letter) -> None:
        """Handle a message of another rank."""

    def attend(self) -> None:
        """Do what became possible since the last time."""
        return None

    def finish(self) -> None:
        """Handle the messages that are left when the race is over.

        Turns that have ended are no loss: the next race finds their results again.
        """
        return None

    def end(self) -> None:
        """End the race on rank 0, after it has told all others."""
        self.is_over = True

    def _rest(self, seconds: float, cost: float) -> None:
        """Leave the core to the turns that are being computed here.

        There were no news for some ``seconds``, and it takes ``cost`` seconds to look for them.
        """
        if not self.waiting or self.communicator.is_root:
            self.communicator.rest(seconds)
            return
        longest = LONGEST
        if not self._is_ending:  # until a turn ends, no message is urgent
            longest = max(LONGEST, min(10 * cost, LONGEST_IF_SLOW))
        self.bench.wait(min(seconds / 10, longest))

    def _collect(self) -> None:
        """Line up the turns that have ended here and the messages that have arrived.

        The server handles all of them in this order, so that its own members have no advantage.
        """
        ended = [member for member in self.waiting if self.bench.result(member) is not None]
        self.waiting.difference_update(ended)
        self._events += ended
        while (message := self.communicator.poll()) is not None:
            self._events.append(message)

    def _handle_event(self, event: int | Posted) -> None:
        if isinstance(event, Posted):
            self._receive(event)
        else:
            self.end_turn(event)

    def _receive(self, message: Posted) -> None:
        letter, is_new = decode(message.buffer, self.device), message.tag == self.tag
        if letter.kind is Kind.PING and is_new:
            self._is_ending = True
            self.send(Letter(Kind.PONG), 0)
        elif letter.kind is Kind.PONG and is_new:
            self._present.add(message.source)
        elif is_new or letter.kind is Kind.POST:  # results for an earlier race come again
            self.handle(message.source, letter)

    def _close(self) -> None:
        """End the race if enough turns have arrived and all remaining ranks answer."""
        others, num_missing = self.others(), self.count - len(self.arrivals)
        if not self._asked and num_missing <= 2 * len(self.busy):  # early, so that nobody waits
            self._asked = True
            self.send(Letter(Kind.PING), *others)
        if num_missing <= 0 and self._present >= set(others):
            self._is_closed = True
            self.send(Letter(Kind.OVER), *others)
            self.end()

    def arrive(self, member: int, facts: list[int]) -> None:
        """Note an arrival on rank 0."""
        seconds = time.perf_counter() - self._began
        self.arrivals.append(Arrival(member, facts, seconds))

    def others(self) -> list[int]:
        """Return the other ranks, as far as they are not lost."""
        own, gone = self.communicator.rank, self._gone
        return [r for r in range(self.communicator.num_ranks) if r != own and r not in gone]

    def lose(self, ranks: frozenset[int]) -> None:
        """Continue without the members of lost ranks."""
        self._gone |= ranks
        self.busy -= {member for member, rank in self.home.items() if rank in self._gone}

    def send(self, letter: Letter, *ranks: int) -> None:
        """Post a message to some ranks."""
        if ranks:
            buffer = encode(letter)
            for rank in ranks:
                self.communicator.post(rank, buffer, self.tag)

    def start_turn(self, member: int) -> None:
        """Compute the next turn of a member hosted here."""
        row = member - self.span.start
        rows, mail = trees.map(torch.clone, (one(self.rows, row), one(self.mail, row)))
        self.busy.add(member)
        self.waiting.add(member)
        self.bench.want(Work(member, self.turns[member], rows, mail), self.turn)

    def commit(self, member: int) -> None:
        """Replace a member's rows by the result of its turn."""
        row = member - self.span.start
        rows, _, numbers = self.bench.taken(member)
        put(self.rows, row, rows)
        self.totals.add(row, numbers)
        self.turns[member] += 1

    def _result(self) -> Raced:
        turns = torch.tensor([self.turns[member] for member in self.span], device=self.device)
        seen = torch.tensor([self.seen[member] for member in self.span], device=self.device)
        ends = [0.0 if member in self.busy else inf for member in self.span]
        clock = torch.tensor(ends, dtype=torch.float64, device=self.device)
        seen = seen.reshape(len(turns), -1).long()
        members = Runners(self.rows, self.mail, turns, seen, clock)
        return Raced(Race(self.server, members), self.totals.sums, self.arrivals, self.traffic)
