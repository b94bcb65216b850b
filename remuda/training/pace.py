"""Decide when samples, scores and checkpoints are due, and let all ranks agree on it."""

from typing import NamedTuple

import torch

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


def is_due(t: int, every: int, is_last: bool) -> bool:
    """Return whether t is a multiple of ``every`` or the last round. ``every=0`` means never."""
    return every > 0 and (is_last or t % every == 0)


def is_show_due(t: int, config: RunConfig, is_last: bool) -> bool:
    """Return whether samples or scores are due after round t."""
    every = config.run.sample_every, config.scores.every
    return any(is_due(t, number, is_last) for number in every)


def is_due_by_rounds(t: int, config: RunConfig, is_last: bool) -> bool:
    """Return whether a checkpoint is due after round t, whatever the time is.

    A run that keeps its best checkpoint saves every round that is scored, because a score is known
    only after the next round may have started.
    """
    every = [config.run.checkpoint_every]
    if config.run.keep_best:
        every.append(config.scores.every)
    return is_last or any(is_due(t, number, is_last) for number in every)


def num_checkpoints(config: RunConfig, per_round: float, blocked: float) -> int:
    """Return how many checkpoints a run writes if a round takes ``per_round`` seconds.

    Each checkpoint blocks training for ``blocked`` seconds.
    """
    pace, number = Pace(60 * config.run.checkpoint_minutes, 0.0), 0
    for t in range(1, config.run.rounds + 1):
        is_last = t == config.run.rounds
        if is_due_by_rounds(t, config, is_last) or pace.is_due(t * per_round):
            pace.note(t * per_round, blocked)
            number += 1
    return number


# Ranks agree on the round that they have computed by the largest of their numbers. The three lowest
# bits of this number carry the decisions to end and to save, which therefore need no message.


def vote(t: int, is_busy: bool, is_due: bool, is_over: bool = False) -> int:
    """Return the number of a rank that has computed round t. Only rank 0 knows if it is over."""
    return 8 * t + 4 * is_over + 2 * is_busy + is_due


class Agreement(NamedTuple):
    """What all ranks have agreed on after a round."""

    round: int
    is_due: bool  # a checkpoint is due by time, and no rank is still writing
    is_over: bool  # the run ends early, with this round


def decide(largest: int) -> Agreement:
    """Return the decisions that the largest of all numbers carries."""
    return Agreement(largest // 8, largest % 4 == 1, bool(largest & 4))


def is_overlapped(device: torch.device) -> bool:
    """Return whether scores are computed while training continues.

    On a CPU, both would compete for the same cores.
    """
    return device.type == "cuda"
