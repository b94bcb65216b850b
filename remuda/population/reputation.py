"""Combine messages by the reputations of their senders, which a server updates in every iteration.

In a single iteration, honest messages may hardly resemble each other. Over many iterations, honest
members agree on average, members that flip signs disagree, and noise is unrelated to all others. A
reputation is an exponential moving average of a member's agreement with the other members.

Colluding members may send the same noise. Messages that are much closer to each other than to most
other messages are duplicates, and share one vote. Honest messages may be close to each other too,
but then they are close to the majority.

Sources: C. Fung, C. Yoon, I. Beschastnikh, "The limitations of federated learning in sybil
settings", RAID 2020 (messages that are too similar); S. P. Karimireddy, L. He, M. Jaggi, "Learning
from history for Byzantine robust optimization", ICML 2021 (memory against liars).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from remuda.population.aggregates import TINY, median, middle, only_finite, shortening

RATE = 0.02  # the weight of the newest agreement in a reputation
# A duplicate is nearer than this fraction of the median distance. A distance is 1 - the cosine.
DUPLICATE = 0.1
SAME = 1e-6  # a distance that may be due to rounding
TRUST = 0.5  # trusted members have at least this fraction of the median reputation


class Judged(NamedTuple):
    """The combined message, and what the server thinks of the members."""

    combined: Tensor  # (d,)
    kept: Tensor  # (N,): how much of each message was used, in [0, 1]
    reputation: Tensor  # (N,), in [-1, 1]


def combine_by_reputation(messages: Tensor, present: Tensor, reputation: Tensor) -> Judged:
    """Return the mean of the messages (N, d) of trusted members, and the new reputations.

    Messages that are longer than the median length are shortened to it. Absent members and messages
    with NaN or infinite numbers have no influence, and these members keep their reputations. If no
    message is left, the result is NaN. All shapes are fixed.
    """
    messages, present = only_finite(messages, present)
    directions = _directions(messages)
    is_duplicate = _duplicates(directions, present)
    votes = present / is_duplicate.sum(1)
    witnesses = trusted(reputation, present) * votes
    agreement = _agreement(directions, is_duplicate, witnesses)
    reputation = torch.where(present, reputation.lerp(agreement, RATE), reputation)
    weights = trusted(reputation, present) * votes
    kept = weights * shortening(messages, present)
    return Judged((kept[:, None] * messages).sum(0) / weights.sum(), kept, reputation)


def trusted(reputation: Tensor, present: Tensor) -> Tensor:
    """Return which members are trusted; all that are present if their median is not above 0."""
    typical = middle(reputation, present)
    return present & ((reputation >= TRUST * typical) | (typical <= 0))


def _directions(messages: Tensor) -> Tensor:
    """Return the messages with unit length; messages of zeros stay zero."""
    messages = messages / messages.abs().amax(1, keepdim=True).clamp(min=TINY)  # no overflow
    return messages / messages.norm(dim=1, keepdim=True).clamp(min=TINY)


def _duplicates(directions: Tensor, present: Tensor) -> Tensor:
    """Return which messages j are duplicates of each message i, (N, N); i itself is one of them."""
    places = torch.arange(len(directions), device=directions.device)
    # Half the square of the distance between directions; a GPU's fast products are too inexact.
    mode = "donot_use_mm_for_euclid_dist"
    squares = torch.cdist(directions, directions, compute_mode=mode).square()
    distances = (squares / 2).clamp(min=SAME)
    typical, _ = median(distances, present, 0)  # of each message to all that are present
    is_near = (distances < DUPLICATE * typical[:, None]) & present
    return is_near | (places == places[:, None])


def _agreement(directions: Tensor, is_duplicate: Tensor, witnesses: Tensor) -> Tensor:
    """Return the cosine of each message with the sum of those that are not its duplicates."""
    others = torch.where(is_duplicate, 0.0, witnesses) @ directions
    return (directions * others).sum(1) / others.norm(dim=1).clamp(min=TINY)
