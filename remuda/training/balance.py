"""Measure how fast each rank computes, and decide when members should move to faster ranks.

The speed of a rank is the number of its members divided by the seconds that a round takes there,
without the seconds in which it waits for other ranks.
"""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from remuda.config import RunConfig
from remuda.engines.mpi.spans import spans
from remuda.system.text import count, listed

RECENT = 25  # rounds whose median counts
FEWEST = 5  # rounds that must be measured before members move for the first time
WORTH = 0.1  # share of the slowest rank's time that a move must save
LISTED = 8  # ranks that a message names one by one

# The seconds of this rank in recent rounds. None: the next round is not measured, because it
# includes preparations such as compiling.
Timings = tuple[float, ...] | None


def add_round(timings: Timings, seconds: float, is_preparing: bool) -> Timings:
    """Return the timings after one more round."""
    if is_preparing:
        return None
    if timings is None:
        return ()
    return (*timings, seconds)[-RECENT:]


def speed(timings: Timings, num_members: int) -> float | None:
    """Return how many members finish a round in a second; None if no round was measured."""
    if not timings:
        return None
    return num_members / max(statistics.median(timings), 1e-9)


def settled_speed(
    timings: Timings, num_members: int, num_rounds: int, num_moves: int
) -> float | None:
    """Return the speed if enough rounds were measured; None otherwise.

    ``num_rounds`` is the number of rounds since the last start or move. Each move doubles the
    number that the next one needs, so that a noisy machine does not move members again and again.
    """
    is_early = num_rounds < FEWEST * 2**num_moves or len(timings or ()) < FEWEST
    return None if is_early else speed(timings, num_members)


class Plan(NamedTuple):
    """A better placement."""

    spans: list[range]
    speeds: list[float]  # by rank
    saved: float  # share of the slowest rank's time


def plan(hosted: Sequence[range], speeds: Sequence[float | None]) -> Plan | None:
    """Return the best placement; None if it saves too little, or if some speed is not known."""
    known = [each for each in speeds if each is not None]
    if len(known) < len(speeds):
        return None
    best = spans(hosted[-1].stop, len(hosted), known)
    saved = 1 - _slowest(best, known) / _slowest(hosted, known)
    return Plan(best, known, saved) if saved > WORTH else None


def _slowest(hosted: Sequence[range], speeds: Sequence[float]) -> float:
    """Return the seconds of a round on the slowest rank."""
    return max(len(span) / each for span, each in zip(hosted, speeds, strict=True))


def is_possible(config: RunConfig, hosted: Sequence[range]) -> bool:
    """Return whether members may move to other ranks during the run.

    Asynchronous members do not wait for slow ranks. The data of ranks stay where they are. In a
    deterministic run, results must not depend on time, and the number of members on a rank may
    change their rounding.
    """
    engine = config.engine
    is_free = engine.balance and not engine.deterministic and not config.data.is_per_rank
    is_free = is_free and not config.strategy.is_asynchronous
    return is_free and 1 < len(hosted) < hosted[-1].stop


def describe(plan: Plan) -> str:
    """Return a message that tells the user which rank will host how many members."""
    lengths = [len(span) for span in plan.spans]
    if len(lengths) > LISTED:
        where = f"between {min(lengths)} and {count(max(lengths), 'member')} on each rank"
    else:
        where = listed([f"{length} on rank {rank}" for rank, length in enumerate(lengths)])
    time = f"a round should take {plan.saved:.0%} less time"
    return f"moving members to faster ranks: {where}; {time}"
