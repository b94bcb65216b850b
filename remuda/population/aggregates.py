"""Combine the messages of many members into one, even if some of the members lie.

Every aggregate is a pure function of messages (N, d), a mask of the members that are present (N,),
and f, the number of liars to withstand. It returns the combined message (d,) and, for every member,
how much of its message was used, (N,) in [0, 1]. Absent members have no influence, and neither have
messages with NaN or infinite numbers. If no message is left, the result is NaN. All shapes are
fixed, so that compilers can use these functions.

f = 0 stands for as many liars as the aggregate can withstand. If so many members are absent that it
cannot withstand f liars, it withstands as many as it can.

Sources: D. Yin et al., "Byzantine-robust distributed learning: towards optimal statistical rates",
ICML 2018 (median, trimmed mean); P. Blanchard et al., "Machine learning with adversaries: Byzantine
tolerant gradient descent", NeurIPS 2017 (Krum, Multi-Krum); K. Pillutla, S. Kakade, Z. Harchaoui,
"Robust aggregation for federated learning", 2019 (geometric median); Z. Sun et al., "Can you really
backdoor federated learning?", 2019 (clipped norms).
"""

from collections.abc import Callable

import torch
from torch import Tensor

WEISZFELD_STEPS = 8
TINY = 1e-30  # a norm or a distance that counts as zero
KRUM_SPARE, OTHER_SPARE = 3, 1  # f liars can be withstood among N >= 2 f + spare members

Combined = tuple[Tensor, Tensor]  # the combined message (d,), and how much of each was used (N,)


def spare(name: str) -> int:
    """Return by how many members an aggregate must outnumber twice the liars that it withstands."""
    return KRUM_SPARE if name == "krum" else OTHER_SPARE


def most_liars(name: str, num_members: int) -> int:
    """Return how many liars an aggregate can withstand among this many members."""
    return max(0, (num_members - spare(name)) // 2)


def mean(messages: Tensor, present: Tensor, f: int) -> Combined:
    """Return the mean, which a single liar can move anywhere."""
    messages, present = only_finite(messages, present)
    return messages.sum(0) / present.sum(), present.float()


def median(messages: Tensor, present: Tensor, f: int) -> Combined:
    """Return the median of every coordinate; with an even number, the mean of the middle two."""
    messages, present = only_finite(messages, present)
    return _middle(messages, present, _tolerance(present, 0, OTHER_SPARE))


def trimmed_mean(messages: Tensor, present: Tensor, f: int) -> Combined:
    """Return the mean of every coordinate without its f largest and its f smallest values."""
    messages, present = only_finite(messages, present)
    return _middle(messages, present, _tolerance(present, f, OTHER_SPARE))


def krum(messages: Tensor, present: Tensor, f: int) -> Combined:
    """Return the mean of the n - f - 2 messages that are closest to their n - f - 2 neighbours.

    This is Multi-Krum; Krum itself uses only the best of these messages.
    """
    messages, present = only_finite(messages, present)
    places = torch.arange(len(messages), device=messages.device)
    count = (present.sum() - _tolerance(present, f, KRUM_SPARE) - 2).clamp(min=1)
    # Differences are exact even if all messages are close to each other; a product is not.
    mode = "donot_use_mm_for_euclid_dist"
    distances = torch.cdist(messages, messages, compute_mode=mode).square()
    is_other = present & (places != places[:, None])
    nearest = torch.where(is_other, distances, torch.inf).sort(1).values
    scores = torch.where(places < count, nearest, 0.0).sum(1)
    scores = torch.where(present, scores.clamp(max=torch.finfo(scores.dtype).max), torch.inf)
    ranks = scores.argsort(stable=True).argsort()
    kept = ((ranks < count) & present).float()
    return _weighted_mean(messages, kept), kept


def geometric_median(messages: Tensor, present: Tensor, f: int) -> Combined:
    """Return the point with the smallest sum of distances to all messages.

    A fixed number of Weiszfeld's steps start from the median of every coordinate. Distances below
    1 % of their median count as 1 %: otherwise a message at the starting point would hold it there.
    """
    messages, present = only_finite(messages, present)
    point, _ = median(messages, present, f)
    weights = present.float()
    for _ in range(WEISZFELD_STEPS):
        distances = (messages - point).norm(dim=1)
        typical, _ = median(distances[:, None], present, f)
        distances = distances.clamp(min=(0.01 * typical).clamp(min=TINY))
        nearest = torch.where(present, distances, torch.inf).amin()
        weights = torch.where(present, nearest / distances, 0.0)
        point = _weighted_mean(messages, weights)
    return point, weights


def norm_clipped(messages: Tensor, present: Tensor, f: int) -> Combined:
    """Return the mean of all messages, after shortening those longer than the median length."""
    messages, present = only_finite(messages, present)
    factors = shortening(messages, present)
    return (factors[:, None] * messages).sum(0) / present.sum(), factors


AGGREGATES: dict[str, Callable[[Tensor, Tensor, int], Combined]] = {
    "mean": mean,
    "median": median,
    "trimmed-mean": trimmed_mean,
    "krum": krum,
    "geometric-median": geometric_median,
    "norm-clipped": norm_clipped,
}


def only_finite(messages: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
    """Remove messages with NaN or infinite numbers, and those of absent members."""
    present = present & messages.isfinite().all(1)
    return torch.where(present[:, None], messages.float(), 0.0), present


def middle(numbers: Tensor, present: Tensor) -> Tensor:
    """Return the median of one number per member, among the members that are present."""
    return _middle(numbers[:, None], present, _tolerance(present, 0, OTHER_SPARE))[0]


def shortening(messages: Tensor, present: Tensor) -> Tensor:
    """Return the factors (N,) that shorten long messages to the median length; 0 if absent."""
    norms = messages.norm(dim=1)
    bound = middle(norms, present)
    factors = torch.where(norms > bound, bound / norms.clamp(min=TINY), 1.0)
    return torch.where(present, factors, 0.0)


def _tolerance(present: Tensor, f: int, spare: int) -> Tensor:
    """Return the number of liars to withstand among those present."""
    most = ((present.sum() - spare) // 2).clamp(min=0)
    return most.clamp(max=f) if f else most


def _middle(messages: Tensor, present: Tensor, cut: Tensor) -> Combined:
    """Return the mean of every coordinate without its ``cut`` largest and smallest values."""
    places = torch.arange(len(messages), device=messages.device)[:, None]
    ordered = torch.where(present[:, None], messages, torch.inf).sort(0).values
    last = present.sum() - 1 - cut
    low, high = (torch.where(places == place, ordered, 0.0).sum(0) for place in (cut, last))
    is_inside = (places >= cut) & (places <= last)
    total = torch.where(is_inside, ordered, 0.0).sum(0)
    is_kept = (messages >= low) & (messages <= high) & present[:, None]
    return total / is_inside.sum(), is_kept.float().mean(1)


def _weighted_mean(messages: Tensor, weights: Tensor) -> Tensor:
    return (weights[:, None] * messages).sum(0) / weights.sum()
