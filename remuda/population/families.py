"""Find families of similar members by agglomerative clustering."""

import numpy as np


def find_families(distances: np.ndarray, number: int) -> tuple[tuple[int, ...], ...]:
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
