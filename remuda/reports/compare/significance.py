"""Test whether the scores of two groups differ: the Mann-Whitney U test."""

import math
from collections.abc import Sequence

MIN_REPEATS = 2  # scored seeds in each group
# Enumerate at most this many divisions of tied values; ten against ten values have 184,756.
MAX_DIVISIONS = 200_000


def mann_whitney(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the two-sided p-value of the U test.

    The value is exact if no values are tied. Scores such as a number of modes have ties. With ties,
    the usual exact table is wrong, and the normal approximation is poor for ten values. The test
    then enumerates all divisions of the ranks into two groups, up to ``MAX_DIVISIONS`` of them.
    For more divisions it uses the normal approximation.
    """
    from scipy import stats  # slow to import, and not needed by other commands

    together = [*one, *other]
    if len(set(together)) == len(together):
        return float(stats.mannwhitneyu(one, other, method="exact").pvalue)
    if len(set(together)) == 1:
        return 1.0
    if math.comb(len(together), len(one)) > MAX_DIVISIONS:
        return float(stats.mannwhitneyu(one, other, method="asymptotic").pvalue)
    ranks = stats.rankdata(together)
    result = stats.permutation_test(
        (ranks[: len(one)], ranks[len(one) :]),
        lambda mine, _, axis: mine.sum(axis=axis),
        permutation_type="independent",
        vectorized=True,
        n_resamples=MAX_DIVISIONS,
        alternative="two-sided",
    )
    return float(result.pvalue)


def smallest_p(num_one: int, num_other: int) -> float:
    """Return the smallest possible p-value, reached if the values of the groups do not overlap."""
    return min(1.0, 2 / math.comb(num_one + num_other, num_one))
