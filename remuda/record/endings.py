"""Find the best round of a run by its scores, and decide whether the run ends early.

Both follow from the files of the run. Nothing else is stored, so nothing can disagree after a
crash.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from remuda.record.scores import Score
from remuda.scores.directions import LOWER, direction
from remuda.system.text import count


def ranking(scores: Iterable[Score], name: str) -> list[Score]:
    """Return the scores with this name, best first; of equal ones, the earliest comes first."""
    found = [score for score in scores if score.name == name and math.isfinite(score.value)]
    better = found[0].better if found else ""
    sign = 1 if direction(name, better) == LOWER else -1
    return sorted(found, key=lambda score: (sign * score.value, score.round))


def best(scores: Iterable[Score], name: str, saved: Collection[int]) -> Score | None:
    """Return the best score of the rounds whose checkpoints are saved."""
    return next((score for score in ranking(scores, name) if score.round in saved), None)


def describe(score: Score) -> str:
    """Return a best score in words, such as ``round 30, fid_10k_train_inception 12.34``."""
    return f"round {score.round:,}, {score.name} {score.value:.4g}"


def protected(scores: Iterable[Score], name: str, saved: Collection[int]) -> set[int]:
    """Return the rounds whose checkpoints must stay.

    These are the best round that is saved, and better ones: other ranks may still write them.
    """
    rounds: set[int] = set()
    for score in ranking(scores, name):
        rounds.add(score.round)
        if score.round in saved:
            break
    return rounds


class Ending(NamedTuple):
    """Why a run ends before its last round."""

    why: str  # such as "stopped after 10.0 of 10 minutes"
    remedy: str  # a setting with which it would continue, such as "run.max_minutes=20"


def ending(
    run: Mapping[str, Any], scores: Sequence[Score], t: int, seconds: float
) -> Ending | None:
    """Return why a run ends with round t, or None if it continues.

    ``run`` is the section run of its settings, which may be those of an older version. ``seconds``
    is the total time of the rounds up to t. Only scores of earlier rounds count, because those of
    round t may not exist yet.
    """
    minutes, limit = round(seconds, 4) / 60, run.get("max_minutes", 0.0)
    if limit and minutes >= limit:
        digits = 1 if limit >= 1 else 3
        why = f"stopped after {minutes:.{digits}f} of {limit:g} minutes"
        return Ending(why, f"run.max_minutes={float(f'{2 * minutes:.2g}'):g}")
    patience, name = run.get("patience", 0), run.get("keep_best", "")
    stale = num_stale(scores, name, t)
    if patience and stale >= patience:
        first = ranking((score for score in scores if score.round < t), name)[0]
        why = (
            f"stopped because {name} has not improved in {count(stale, 'scoring')} since round "
            f"{first.round} ({first.value:.4g})"
        )
        return Ending(why, f"run.patience={stale + patience}")
    return None


def num_stale(scores: Sequence[Score], name: str, t: int) -> int:
    """Return how many scorings before round t came after the best of them."""
    known = [score for score in scores if score.name == name and score.round < t]
    ranked = ranking(known, name)
    return sum(score.round > ranked[0].round for score in known) if ranked else 0
