"""State for each score whether lower or higher values are better.

This module does not import PyTorch, so that reports can use it without PyTorch.
"""

from collections.abc import Sequence

LOWER, HIGHER = "↓", "↑"  # the better direction
DIRECTIONS = {
    "fid": LOWER,
    "kid": LOWER,
    "tvd": LOWER,
    "is": HIGHER,
    "precision": HIGHER,
    "recall": HIGHER,
    "density": HIGHER,
    "coverage": HIGHER,
    "modes": HIGHER,
    "high-quality": HIGHER,
    "mode-tvd": LOWER,
    "class-fid": LOWER,
    "class-kid": LOWER,
    "diversity": HIGHER,
    "copying": LOWER,
}


def direction(name: str, better: str = "") -> str:
    """Return the better direction of a score, such as fid_10k_train_inception.

    ``better`` is "lower" or "higher" for scores of users. The result is ↓ or ↑, or "" if it is not
    known.
    """
    if better:
        return {"lower": LOWER, "higher": HIGHER}.get(better, "")
    kind = name.split("_")[0]
    return HIGHER if kind.endswith("-score") else DIRECTIONS.get(kind, "")


def worst(values: Sequence[float | None], arrow: str) -> int | None:
    """Return the place of the worst value; None if no value is worse than another."""
    known = [value for value in values if value is not None]
    if not arrow or len(set(known)) < 2:
        return None
    return list(values).index(max(known) if arrow == LOWER else min(known))
