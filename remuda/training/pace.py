"""Decide when a checkpoint is due, and let all ranks agree on it."""

from remuda.config import RunConfig

FIRST = 10.0  # seconds until the first checkpoint; later ones follow at growing intervals
SHARE = 0.03  # of the time that checkpoints may block training


class Pace:
    """The times of checkpoints. Only rank 0 decides by its clock.

    The interval starts at ten seconds and doubles up to a limit. It is never so short that saving
    blocks training for more than 3 % of the time.
    """

    def __init__(self, limit: float, now: float):
        self.limit = limit  # longest interval in seconds
        self.interval = min(FIRST, limit)
        self.last = now
        self.blocked = 0.0  # seconds for which the last checkpoint blocked training

    def is_due(self, now: float) -> bool:
        """Return whether a checkpoint is due."""
        return now - self.last >= max(self.interval, self.blocked / SHARE)

    def note(self, now: float, blocked: float) -> None:
        """Start the next interval, after a checkpoint that blocked training for some seconds."""
        self.last, self.blocked = now, blocked
        self.interval = min(2 * self.interval, self.limit)


def is_due_by_rounds(t: int, config: RunConfig) -> bool:
    """Return whether a checkpoint is due after round t, whatever the time is."""
    every = config.run.checkpoint_every
    return t == config.run.rounds or (every > 0 and t % every == 0)


def num_checkpoints(config: RunConfig, per_round: float, blocked: float) -> int:
    """Return how many checkpoints a run writes if a round takes ``per_round`` seconds.

    Each checkpoint blocks training for ``blocked`` seconds.
    """
    pace, number = Pace(60 * config.run.checkpoint_minutes, 0.0), 0
    for t in range(1, config.run.rounds + 1):
        if is_due_by_rounds(t, config) or pace.is_due(t * per_round):
            pace.note(t * per_round, blocked)
            number += 1
    return number


# Ranks agree on the round that they have computed by the largest of their numbers. The two lowest
# bits of this number carry the decision to save, which therefore needs no message.


def vote(t: int, is_busy: bool, is_due: bool) -> int:
    """Return the number of a rank that has computed round t."""
    return 4 * t + 2 * is_busy + is_due


def decide(largest: int) -> tuple[int, bool]:
    """Return the round, and whether to save it: it is due, and no rank is still writing."""
    return largest // 4, largest % 4 == 1
