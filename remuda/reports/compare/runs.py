"""Read runs and condense them for comparisons."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remuda.config import from_dict
from remuda.config.references import references
from remuda.record.endings import Ending, ending
from remuda.record.facts import DataFacts
from remuda.record.files import damaged, is_number
from remuda.record.scores import Score
from remuda.record.writer import Record
from remuda.reports.compare.curves import Curves


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that a comparison shows about a run, after its last or a chosen round."""

    folder: Path
    settings: dict[str, Any]  # see Record.comparable
    facts: DataFacts
    device: str  # device of the last start or resume; "" if not recorded
    num_members: int
    num_rounds: int  # number of rounds trained
    num_images: int  # real images that the population has seen
    seconds: float  # sum over the rounds
    num_bytes: int | None  # bytes sent between members; None unless every round reports them
    scores: dict[tuple[int, str], Score]  # by round and name
    history: list[Score]  # all scores up to the chosen round
    curves: Curves
    ending: Ending | None  # why the run ended early, with its last round


def expand(folders: list[Path]) -> list[Path]:
    """Replace each folder of runs, such as ``remuda repeat`` writes, by the runs in it."""
    found = []
    for folder in folders:
        inner = sorted(path.parent for path in folder.glob("*/config.toml"))
        found += inner if inner and not (folder / "config.toml").exists() else [folder]
    return found


def read(folder: Path, last_round: int | None = None, curves: Curves | None = None) -> Run:
    """Read a run; with ``last_round``, only rounds up to it and the scores of that round.

    ``curves`` are those of an earlier call, so that only new rounds are read.
    """
    record = Record.open(folder)
    settings, facts, environments = record.comparable, record.facts, record.environments()
    curves = curves or Curves(folder, last_round)
    curves.update()
    scores = record.scores()
    return Run(
        folder=folder,
        settings=settings,
        facts=facts,
        device=str(environments[-1].get("device", "")) if environments else "",
        num_members=_num_members(record, curves),
        num_rounds=curves.num_rounds,
        num_images=curves.num_images,
        seconds=curves.seconds,
        num_bytes=curves.num_bytes,
        scores=_scores(folder, scores, last_round),
        history=[score for score in scores if last_round is None or score.round <= last_round],
        curves=curves,
        ending=ending(settings["run"], scores, curves.num_rounds, curves.seconds),
    )


def _num_members(record: Record, curves: Curves) -> int:
    settings = record.settings
    if not references({"strategy": settings["strategy"]}):
        strategy = from_dict({"strategy": settings["strategy"]}).strategy
        return strategy.num_members(settings["run"]["members"], len(record.facts.classes))
    # The strategy is the user's own code, which is not executed here.
    return curves.width or settings["run"]["members"]


def _scores(
    folder: Path, scores: list[Score], last_round: int | None
) -> dict[tuple[int, str], Score]:
    """Return the scores; raise if one is not finite, because means and tests need finite values."""
    found = {}
    for score in scores:
        numbers = (score.value, score.spread or 0.0, score.floor or 0.0)
        if not all(map(is_number, numbers)):
            why = f"{score.name} of round {score.round} is not a finite number"
            raise damaged(folder / "scores.jsonl", why)
        if last_round in (None, score.round):
            found[score.round, score.name] = score
    return found
