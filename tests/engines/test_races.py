"""Races: the order of arrivals, mail, what is in flight, and replays, on hand-made numbers."""

from math import inf

import pytest
import torch

from remuda.engines import Metered, Stacked
from remuda.engines.racing import Arrival, Board, Hub, Race, in_causal_order, start
from remuda.errors import UserError

NEIGHBOURS = torch.tensor([[0, 1], [1, 2], [2, 0]])


def pace_of(*speeds):
    return lambda member, number: 1 / speeds[member]


def turn(engine, rows, mail, number):
    """Add the mail to the row; the message tells who sends it and when."""
    (member,) = engine.members
    total = rows + mail.reshape(1, -1).sum(1)
    return total, torch.tensor([[member, number]]), {"mail": mail.reshape(1, -1).sum(1)}


def hub(busy=9):
    """A server that lists all messages; mail is the number of messages so far."""
    return Hub(
        apply=lambda server, member, number, message: [
            *server,
            (member, number, *message[0].tolist()),
        ],
        write=lambda server, member, number: torch.tensor([float(len(server))]),
        num_busy=busy,
    )


def begin(speeds, busy=None, server=(), mail=None, **more):
    size = len(speeds)
    mail = torch.zeros(size) if mail is None else mail
    members = torch.arange(size)
    return start(
        server, torch.zeros(size), mail, members, pace_of(*speeds), size=size,
        num_busy=busy or size, **more,
    )  # fmt: skip


def order(raced):
    return [arrival.member for arrival in raced.arrivals]


def test_equal_speeds_give_one_arrival_per_member_in_turn():
    raced = Stacked(3).race(turn, hub(), begin([1, 1, 1], server=[]), 6, pace_of(1, 1, 1))
    assert order(raced) == [0, 1, 2, 0, 1, 2]
    # The first mail is 0. The mail of the second turn was written when 1, 2 and 3 had arrived.
    assert raced.state.members.rows.tolist() == [1, 2, 3]
    assert raced.state.members.mail.tolist() == [4, 5, 6]
    assert raced.state.members.turns.tolist() == [2, 2, 2]
    assert raced.state.server == [(m, n, m, n) for n in (0, 1) for m in (0, 1, 2)]
    assert raced.totals["mail"].tolist() == [1, 2, 3]


def test_a_slow_member_delays_nobody():
    """Members 0 and 1 need 1, member 2 needs 5: it arrives once, after five turns of the others."""
    speeds = 1, 1, 0.2
    raced = Stacked(3).race(turn, hub(), begin(speeds, server=[]), 11, pace_of(*speeds))
    assert order(raced) == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 2]
    assert [arrival.seconds for arrival in raced.arrivals] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5]
    assert raced.state.members.clock.tolist() == [6, 6, 10]


def test_two_races_equal_one():
    """What is in flight stays in flight between races."""
    speeds = 1, 0.7, 0.2
    engine, first = Stacked(3), begin(speeds, server=[])
    whole = engine.race(turn, hub(), first, 9, pace_of(*speeds))
    part = engine.race(turn, hub(), first, 4, pace_of(*speeds))
    rest = engine.race(turn, hub(), part.state, 5, pace_of(*speeds))
    assert order(whole) == order(part) + order(rest)
    assert whole.state.server == rest.state.server
    for one, other in zip(whole.state.members, rest.state.members, strict=True):
        assert torch.equal(one, other)
    assert first.members.rows.tolist() == [0, 0, 0], "a race does not change its arguments"


def test_idle_members_take_turns():
    """With two busy members, the idle one with the fewest turns gets the next mail."""
    state = begin([1, 1, 1], busy=2, server=[])
    assert state.members.clock.tolist() == [1, 1, inf]
    raced = Stacked(3).race(turn, hub(2), state, 6, pace_of(1, 1, 1))
    assert [(a.member, *a.facts) for a in raced.arrivals] == [
        (0, 2), (1, 0), (0, 1), (2, 2), (1, 0), (2, 1)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "before, after",
    [
        ([inf, inf, inf, inf], [1, inf, 1, inf]),
        ([inf, 7, inf, inf], [inf, 7, 8, inf]),
        ([7, 7, 8, 9], [7, inf, 8, inf]),
    ],
)
def test_a_race_begins_with_as_many_busy_members_as_it_should_have(before, after):
    """Busy members may have been lost since the last race, or copied to new members."""
    members = begin([1] * 4, server=[]).members
    turns, clock = torch.tensor([3, 3, 2, 3]), torch.tensor(before, dtype=torch.float64)
    state = Race([], members._replace(turns=turns, clock=clock))
    raced = Stacked(4).race(turn, hub(2), state, 0, pace_of(1, 1, 1, 1))
    assert raced.state.members.clock.tolist() == after


def ages_of(raced, sent):
    """Return the number of arrivals between the mail of each turn and its end."""
    ages = []
    for place, (member, (target,), _) in enumerate(raced.arrivals):
        ages.append(place - sent[member])
        sent[target] = place + 1
    return ages


@pytest.mark.parametrize("busy", [1, 2, 6])
def test_the_mean_age_is_the_number_of_other_busy_members(busy):
    state = begin([1] * 6, busy=busy, server=[])
    raced = Stacked(6).race(turn, hub(busy), state, 60, pace_of(*[1] * 6))
    ages = ages_of(raced, dict.fromkeys(range(busy), 0))
    assert sum(ages[busy:]) / (60 - busy) == pytest.approx(busy - 1, abs=0.05)


def test_mail_of_a_board_is_the_newest_posts_of_the_neighbours():
    """By hand: member m adds the rows of itself and its neighbour to its row."""
    board, speeds = Board(post=lambda rows: rows, table=NEIGHBOURS), [1, 1, 0.4]
    mail = torch.tensor([[1.0, 2.0], [2.0, 3.0], [3.0, 1.0]])
    state = begin(speeds, mail=mail, num_neighbours=2)
    raced = Stacked(3).race(turn, board, state, 5, pace_of(*speeds))
    # 0: 0 + 1 + 2 = 3, reads 3 and 0; 1: 0 + 2 + 3 = 5, reads 5 and 0; 0: 3 + 3 + 0 = 6, reads 6
    # and 5; 1: 5 + 5 + 0 = 10, reads 10 and 0; 2: 0 + 3 + 1 = 4, reads 4 and 6.
    assert order(raced) == [0, 1, 0, 1, 2]
    assert raced.state.members.rows.tolist() == [6, 10, 4]
    assert raced.state.members.mail.tolist() == [[6, 5], [10, 0], [4, 6]]
    assert raced.state.members.seen.tolist() == [[2, 1], [2, 0], [1, 2]]
    assert [arrival.facts for arrival in raced.arrivals] == [[0, 0], [0, 0], [1, 0], [1, 0], [0, 0]]


@pytest.mark.parametrize("kind", ["hub", "board"])
def test_a_replay_repeats_a_race(kind):
    exchange = hub() if kind == "hub" else Board(post=lambda rows: 2 * rows, table=NEIGHBOURS)
    mail = None if kind == "hub" else torch.tensor([[1.0, 2.0], [2.0, 3.0], [3.0, 1.0]])
    state = begin([1, 0.3, 0.8], server=[], mail=mail, num_neighbours=0 if mail is None else 2)
    if mail is not None:  # the first mail is the first posts
        state = state._replace(members=state.members._replace(mail=torch.zeros(3, 2)))
    engine, replaying = Metered(Stacked(3)), Metered(Stacked(3))
    expected = repeated = state
    for _ in range(3):
        expected = engine.race(turn, exchange, expected, 4, pace_of(1, 0.3, 0.8)).state
        replaying.follow(engine.arrivals)
        repeated = replaying.race(turn, exchange, repeated, 4, pace_of(1, 1, 1)).state
        assert repeated.server == expected.server
        assert torch.equal(repeated.members.rows, expected.members.rows)
        assert torch.equal(repeated.members.turns, expected.members.turns)


def test_the_meter_counts_messages_mail_and_posts():
    """A message has two integers of 8 bytes, mail one float of 4; member 0 posts to member 2."""
    engine = Metered(Stacked(3))
    engine.race(turn, hub(), begin([1, 1, 1], server=[]), 6, pace_of(1, 1, 1))
    assert dict(engine.bytes) == {("race", "up"): 6 * 16, ("race", "down"): 6 * 4}
    engine.reset()
    board = Board(post=lambda rows: rows, table=torch.tensor([[0, 1], [1, 1], [2, 0]]))
    state = begin([1, 1, 1], mail=torch.zeros(3, 2), num_neighbours=2)
    engine.race(turn, board, state, 3, pace_of(1, 1, 1))
    assert dict(engine.bytes) == {("race", "across"): 2 * 4}, "0 posts to 2, 1 to 0, 2 to nobody"


def test_reports_that_overtook_each_other_are_sorted():
    """Member 1 saw the second turn of member 2, which saw the first turn of member 0."""
    found = [Arrival(1, [0, 2]), Arrival(2, [0, 0]), Arrival(2, [1, 1]), Arrival(0, [0, 0])]
    ordered = in_causal_order(found, dict.fromkeys(range(3), 0), NEIGHBOURS)
    assert ordered == [found[1], found[3], found[2], found[0]]
    with pytest.raises(AssertionError, match="nobody reported"):
        in_causal_order(found[:1], dict.fromkeys(range(3), 0), NEIGHBOURS)


def test_a_resumed_replay_of_a_board_knows_the_posts_from_before():
    """A member works on a post that is older than the newest one when the replay is resumed."""
    board = Board(post=lambda rows: 2 * rows, table=NEIGHBOURS)
    state = begin([1, 1, 1], mail=torch.zeros(3, 2), num_neighbours=2)
    orders = [
        [Arrival(1, [0, 0]), Arrival(0, [0, 0]), Arrival(1, [1, 0])],
        # Member 0 has started its second turn after the first turn of member 1. Member 1 has made
        # another one since. Member 2 has seen nothing new.
        [Arrival(2, [0, 0]), Arrival(0, [1, 1]), Arrival(1, [2, 0]), Arrival(2, [1, 1])],
    ]

    def replay(engine, state, number):
        engine.follow(orders[number], orders[number + 1] if number == 0 else ())
        return engine.race(turn, board, state, 3, pace_of(1, 1, 1)).state

    engine = Stacked(3)
    middle = replay(engine, state, 0)
    assert middle.members.seen.tolist() == [[1, 1], [2, 0], [0, 0]]
    whole, resumed = replay(engine, middle, 1), replay(Stacked(3), middle, 1)
    for one, other in zip(whole.members, resumed.members, strict=True):
        assert torch.equal(one, other)


def test_a_replay_keeps_only_posts_that_are_still_needed():
    """Posts contain whole networks, so the memory of a long replay must not grow."""
    board = Board(post=lambda rows: rows, table=NEIGHBOURS)
    speeds = [1, 0.3, 0.8]
    start = state = begin(speeds, mail=torch.zeros(3, 2), num_neighbours=2)
    engine, replaying, orders = Metered(Stacked(3)), Stacked(3), []
    for _ in range(20):
        state = engine.race(turn, board, state, 3, pace_of(*speeds)).state
        orders.append(engine.arrivals)
    repeated, kept = start, []
    for i, arrivals in enumerate(orders):
        replaying.follow(arrivals, [each for later in orders[i + 1 :] for each in later])
        repeated = replaying.race(turn, board, repeated, 3, pace_of(*speeds)).state
        kept.append(len(replaying._posts))
    assert torch.equal(repeated.members.rows, state.members.rows)
    assert max(kept) <= 2 * 3 and kept[-1] == 0


@pytest.mark.parametrize("facts", [[], [0], [0, 0, 0]])
@pytest.mark.parametrize("is_later", [False, True])
def test_a_board_does_not_replay_the_order_of_other_neighbourhoods(facts, is_later):
    board = Board(post=lambda rows: rows, table=NEIGHBOURS)
    state = begin([1, 1, 1], mail=torch.zeros(3, 2), num_neighbours=2)
    engine, arrivals = Stacked(3), [Arrival(0, facts)]
    engine.follow([] if is_later else arrivals, arrivals)
    with pytest.raises(UserError, match="has other members or neighbourhoods; use"):
        engine.race(turn, board, state, 1, pace_of(1, 1, 1))


@pytest.mark.parametrize("arrival", [Arrival(3, [0]), Arrival(0, [3]), Arrival(0, [])])
def test_a_hub_does_not_replay_the_order_of_other_members(arrival):
    engine = Stacked(3)
    engine.follow([Arrival(0, [0]), arrival])
    with pytest.raises(UserError, match="has other members or neighbourhoods; use"):
        engine.race(turn, hub(), begin([1, 1, 1]), 2, pace_of(1, 1, 1))


def test_a_replay_that_lacks_a_post_says_so():
    board = Board(post=lambda rows: 2 * rows, table=NEIGHBOURS)
    state = begin([1, 1, 1], mail=torch.zeros(3, 2), num_neighbours=2)
    engine = Stacked(3)
    engine.follow([Arrival(0, [0, 3])])
    with pytest.raises(UserError, match="replay the run from its first round"):
        engine.race(turn, board, state, 1, pace_of(1, 1, 1))


def test_the_engine_of_one_member_knows_how_many_rounds_are_left():
    """Its programs compile only if enough rounds are left, and stop when none is left."""

    class Compiling:
        is_preparing, is_cancelled = True, False

        def cancel(self):
            self.is_cancelled = True

    engine = Stacked(3)
    engine.expect(5)
    first, second = engine.single(0), engine.single(1)
    program = second.programs["step", ()] = Compiling()
    assert first.horizon.rounds == second.horizon.rounds == 5
    engine.expect(4)
    assert first.horizon.rounds == 4 and engine.is_preparing and not program.is_cancelled
    engine.expect(0)
    assert program.is_cancelled
