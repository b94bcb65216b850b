"""Combine messages by the reputations of their senders, which a server updates in every iteration.

In a single iteration, honest messages may hardly resemble each other. Over many iterations, honest
members agree on average, members that flip signs disagree, and noise is unrelated to all others.
The agreement of two members is the exponential moving average of the cosine of their messages.

The reputation of a member is the median of its agreements with all members, itself included. If
honest members are in the majority, liars cannot raise their own medians: colluding members agree
only with each other.

Sources: C. Fung, C. Yoon, I. Beschastnikh, "The limitations of federated learning in sybil
settings", RAID 2020 (compares messages by their cosines); S. P. Karimireddy, L. He, M. Jaggi,
"Learning from history for Byzantine robust optimization", ICML 2021 (memory against liars).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from remuda.population.aggregates import TINY, middle, only_finite, shortening

RATE = 0.02  # the weight of the newest cosine in an agreement
TRUST = 0.5  # trusted members have at least this fraction of the median reputation


class Judged(NamedTuple):
    """The combined message, and what the server thinks of the members."""

    combined: Tensor  # (d,)
    kept: Tensor  # (N,): how much of each message was used, in [0, 1]
    agreement: Tensor  # (N, N): of every two members, in [-1, 1]; 0 if never compared


def combine_by_reputation(messages: Tensor, present: Tensor, agreement: Tensor) -> Judged:
    """Return the mean of the messages (N, d) of trusted members, and the new agreements.

    Messages that are longer than the median length are shortened to it. Absent members and messages
    with NaN or infinite numbers have no influence, and these members keep their agreements. If no
    message is left, the result is NaN. All shapes are fixed.
    """
    messages, present = only_finite(messages, present)
    directions = _directions(messages)
    is_compared = present[:, None] & present
    agreement = torch.where(is_compared, agreement.lerp(directions @ directions.T, RATE), agreement)
    is_trusted = trusted(reputations(agreement), present)
    kept = is_trusted * shortening(messages, present)
    return Judged((kept[:, None] * messages).sum(0) / is_trusted.sum(), kept, agreement)


def reputations(agreement: Tensor) -> Tensor:
    """Return the median of each member's agreements (N, N) with those that it was compared with."""
    is_known = agreement != 0
    ordered = torch.where(is_known, agreement, torch.inf).sort(1).values
    count = is_known.sum(1, keepdim=True)
    places = torch.cat([(count - 1).clamp(min=0) // 2, count // 2], 1)
    places = places.clamp(max=len(agreement) - 1)
    middle_two = ordered.gather(1, places).mean(1)
    return torch.where(count[:, 0] > 0, middle_two, 0.0)


def trusted(reputation: Tensor, present: Tensor) -> Tensor:
    """Return which members are trusted; all that are present if their median is not above 0."""
    typical = middle(reputation, present)
    return present & ((reputation >= TRUST * typical) | (typical <= 0))


def _directions(messages: Tensor) -> Tensor:
    """Return the messages with unit length; messages of zeros stay zero."""
    messages = messages / messages.abs().amax(1, keepdim=True).clamp(min=TINY)  # no overflow
    return messages / messages.norm(dim=1, keepdim=True).clamp(min=TINY)
