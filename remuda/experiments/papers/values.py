"""Extract values from run folders: scores, times of runs and of ranks, times of routines.

Every function returns a function of the folders of a work and the key of a row. It raises a
Missing, with the reason, if the folders do not contain the value.
"""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remuda.experiments.papers.description import Missing
from remuda.record.reader import Reader
from remuda.record.scores import Score

ITERATIONS = 200  # of the cellular paper's tables III and IV
SCORE = "score"  # the Inception score, or the same score with a classifier of the data's classes
KINDS = {
    "fid": "FID",
    "tvd": "total variation distance",
    SCORE: "Inception score; on colour images, it needs Inception's weights with their head (see "
    "docs/scores.md)",
}


@dataclass(frozen=True, kw_only=True)
class Value:
    """A mean over seeds or repeats."""

    mean: float
    deviation: float | None = None  # n - 1; None for a single seed
    count: int = 1
    name: str = ""  # protocol of a score


Extract = Callable[[Sequence[Path], str], Value]


def mean(values: Sequence[float], name: str = "") -> Value:
    """Return the mean and the standard deviation of several seeds."""
    spread = statistics.stdev(values) if len(values) > 1 else None
    return Value(mean=statistics.fmean(values), deviation=spread, count=len(values), name=name)


def text_of(value: Value, digits: int = 3) -> str:
    """Format a value, with its deviation and the number of values behind it."""
    shown = f"{value.mean:,.{digits}f}"
    if value.deviation is None:
        return shown
    return f"{shown} ± {value.deviation:,.{digits}f} (n = {value.count})"


# Scores


def kind_of(score: Score) -> str:
    """Return the kind of a score; "score" for the Inception score and its relatives."""
    kind = score.name.partition("_")[0]
    return SCORE if kind == "is" or kind.endswith("-score") else kind


def own_scores(run: Reader) -> list[Score]:
    """Return the scores with the run's own protocol, without those of a later `remuda score`."""
    samples, split = run.setting("scores", "samples"), run.setting("scores", "reference")
    return [
        score
        for score in run.scores()
        if score.num_samples == samples and score.reference in ("", split)
    ]


def last_score(kind: str) -> Extract:
    """Extract a score of the last scored round, with the mean over seeds."""

    def extract(folders: Sequence[Path], row: str) -> Value:
        found = [_last(folder, kind) for folder in folders]
        names = sorted({score.name for score in found})
        if len(names) > 1:
            raise Missing(f"the seeds are scored in different ways: {', '.join(names)}")
        return mean([score.value for score in found], names[0])

    return extract


def _last(folder: Path, kind: str) -> Score:
    scores = [score for score in own_scores(Reader.open(folder)) if kind_of(score) == kind]
    if not scores:
        raise Missing(f"{folder} has no {KINDS.get(kind, kind)}")
    return scores[-1]


# Times


def minutes_of_training(folders: Sequence[Path], row: str) -> Value:
    """Extract the minutes that 200 rounds take on one device, without the first round."""
    return mean([_seconds_per_round(folder) * ITERATIONS / 60 for folder in folders])


def _seconds_per_round(folder: Path) -> float:
    lines = Reader.open(folder).rounds()[1:]
    if not lines:
        raise Missing(f"{folder} has fewer than two rounds; the first one is not timed")
    return statistics.fmean(line["seconds"] for line in lines)


def study(folders: Sequence[Path]) -> dict[str, Any]:
    """Return the content of scaling.json."""
    path = folders[0] / "scaling.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Missing(f"{path} cannot be read ({error}): run the command again") from None


def minutes_on_ranks(place: int) -> Extract:
    """Extract the minutes of 200 rounds: place 0 has one rank, and place -1 the most ranks."""

    def extract(folders: Sequence[Path], row: str) -> Value:
        measured = study(folders)["measured"][place]
        return mean([seconds * ITERATIONS / 60 for seconds in measured["seconds"]])

    return extract


def speedup(folders: Sequence[Path], row: str) -> Value:
    """Extract the ratio of the median rounds on one rank and on the most ranks."""
    measured = study(folders)["measured"]
    if len(measured) < 2:
        raise Missing("this machine has only one core, so only one rank was timed")
    return Value(mean=measured[0]["median"] / measured[-1]["median"])


def num_ranks(folders: Sequence[Path], row: str) -> Value:
    """Extract the largest number of ranks of a study."""
    return Value(mean=study(folders)["measured"][-1]["ranks"])


# Routines of cellular training


def routine_on_device(folders: Sequence[Path], row: str) -> Value:
    """Extract the minutes of a routine in 200 rounds of 16 cells, on one device."""
    return mean([_minutes(folder, row) for folder in folders])


def routine_on_ranks(place: int) -> Extract:
    """Extract the minutes of a routine on rank 0, with one rank (0) or the most ranks (-1)."""

    def extract(folders: Sequence[Path], row: str) -> Value:
        ranks = study(folders)["measured"][place]["ranks"]
        runs = sorted(folders[0].glob(f"{ranks}-ranks-*/config.toml"))
        return mean([_minutes(path.parent, row) for path in runs])

    return extract


def routine_speedup(folders: Sequence[Path], row: str) -> Value:
    """Extract the ratio of a routine's times on one rank and on the most ranks."""
    one, most = _both(folders, row)
    return Value(mean=one / most)


def routine_acceleration(folders: Sequence[Path], row: str) -> Value:
    """Extract by how many per cent a routine's time is smaller on the most ranks."""
    one, most = _both(folders, row)
    return Value(mean=100 * (1 - most / one))


def _both(folders: Sequence[Path], row: str) -> tuple[float, float]:
    if len(study(folders)["measured"]) < 2:
        raise Missing("this machine has only one core, so only one rank was timed")
    one, most = (routine_on_ranks(place)(folders, row).mean for place in (0, -1))
    if not one or not most:
        raise Missing(f"{row} took no measurable time")
    return one, most


def _minutes(folder: Path, row: str) -> float:
    from remuda.reports.page import routines

    found = routines.profile(folder)
    seconds = found.total if row == "overall" else found.seconds.get(row)
    if seconds is None:
        raise Missing(f"{folder} reports no routine {row}")
    return seconds * found.scale
