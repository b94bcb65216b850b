"""Whether one group's scores differ from another's: the test of Mann and Whitney."""

import math
from collections.abc import Sequence

MIN_REPEATS = 2
MAX_DIVISIONS = (
    200_000  # ways to divide tied values that are gone through; ten against ten have 184,756
)


def mann_whitney(one: Sequence[float], other: Sequence[float]) -> float:
    """The two-sided p of the U test: exact without ties, and with ties as long as all divisions can be gone through.

    Scores such as a number of modes have ties, for which the usual exact table is wrong and the normal approximation
    poor at ten values. Then the ranks are divided in every possible way.
    """
    from scipy import stats  # slow to import, which every other command would pay for

    together = [*one, *other]
    if len(set(together)) == len(together):
        return float(stats.mannwhitneyu(one, other, alternative="two-sided", method="exact").pvalue)
    if len(set(together)) == 1:
        return 1.0
    if math.comb(len(together), len(one)) > MAX_DIVISIONS:
        return float(
            stats.mannwhitneyu(one, other, alternative="two-sided", method="asymptotic").pvalue
        )
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
    """What p is when all values of one group lie above all of the other: few repeats can never give less."""
    return min(1.0, 2 / math.comb(num_one + num_other, num_one))
