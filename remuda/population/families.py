"""Find families of similar members by agglomerative clustering."""

from itertools import chain

import numpy as np

Families = tuple[tuple[int, ...], ...]


def find_families(distances: np.ndarray, number: int) -> Families:
    """Divide members into this many families, given the distances (N, N) between the members.

    Join the two nearest families until ``number`` of them are left. The distance between two
    families is the mean distance between their members. Of equal distances, the first one counts.
    """
    families = [[member] for member in range(len(distances))]
    apart = np.array(distances, dtype=np.float64)
    np.fill_diagonal(apart, np.inf)
    for _ in range(len(families) - number):
        a, b = divmod(int(apart.argmin()), len(apart))
        weights = len(families[a]), len(families[b])
        apart[a] = apart[:, a] = np.average(apart[[a, b]], axis=0, weights=weights)
        apart[a, a] = apart[b] = apart[:, b] = np.inf
        families[a] += families[b]
        families[b] = []
    return tuple(sorted(tuple(sorted(family)) for family in families if family))


def join_nearest(families: Families, distances: np.ndarray) -> Families:
    """Return the families with all members, given the distances (N, N) between the members.

    A member without a family joins the nearest one. The distance from a family is the mean distance
    from the members that it had before.
    """
    joined = [list(family) for family in families]
    for member in sorted(set(range(len(distances))) - set(chain.from_iterable(families))):
        apart = [distances[member, list(family)].mean() for family in families]
        joined[int(np.argmin(apart))].append(member)
    return tuple(tuple(family) for family in joined)
