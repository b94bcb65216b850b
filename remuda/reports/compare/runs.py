"""Read runs and condense them for comparisons."""

import math
from dataclasses import dataclass
from pathlib import Path

from remuda.config import RunConfig
from remuda.record.facts import DataFacts
from remuda.record.files import damaged, is_number
from remuda.record.scores import Score
from remuda.record.writer import Record


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that a comparison shows about a run, after its last or a chosen round."""

    folder: Path
    config: RunConfig
    facts: DataFacts
    device: str  # device of the last start or resume; "" if not recorded
    num_members: int
    num_rounds: int  # number of rounds trained
    num_images: int  # real images that the population has seen
    seconds: float  # sum over the rounds
    num_bytes: int | None  # bytes sent between members; None unless every round reports them
    scores: dict[tuple[int, str], Score]  # by round and name


def expand(folders: list[Path]) -> list[Path]:
    """Replace each folder of runs, such as ``remuda repeat`` writes, by the runs in it."""
    found = []
    for folder in folders:
        inner = sorted(path.parent for path in folder.glob("*/config.toml"))
        found += inner if inner and not (folder / "config.toml").exists() else [folder]
    return found


def read(folder: Path, last_round: int | None = None) -> Run:
    """Read a run; with ``last_round``, only rounds up to it and the scores of that round."""
    record = Record.open(folder)
    config, facts, environments = record.config, record.facts, record.environments()
    lines = record.rounds()
    if last_round is not None:
        lines = [line for line in lines if line["round"] <= last_round]
    num_bytes = None
    if lines and all("bytes" in line for line in lines):
        num_bytes = sum(line["bytes"] for line in lines)
    return Run(
        folder=folder,
        config=config,
        facts=facts,
        device=str(environments[-1].get("device", "")) if environments else "",
        num_members=config.strategy.num_members(config.run.members, len(facts.classes)),
        num_rounds=lines[-1]["round"] if lines else 0,
        num_images=lines[-1]["images"] if lines else 0,
        seconds=math.fsum(line["seconds"] for line in lines),
        num_bytes=num_bytes,
        scores=_scores(record, last_round),
    )


def _scores(record: Record, last_round: int | None) -> dict[tuple[int, str], Score]:
    """Return the scores; raise if one is not finite, because means and tests need finite values."""
    found = {}
    for score in record.scores():
        numbers = (score.value, score.spread or 0.0, score.floor or 0.0)
        if not all(map(is_number, numbers)):
            why = f"{score.name} of round {score.round} is not a finite number"
            raise damaged(record.folder / "scores.jsonl", why)
        if last_round in (None, score.round):
            found[score.round, score.name] = score
    return found
