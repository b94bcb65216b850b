"""Scores of a herd: a model's samples before the judge, and the values into the record."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from remuda.config import RunConfig, from_dict
from remuda.errors import UserError
from remuda.model.model import Model, load
from remuda.record.record import Record
from remuda.reports import page as report
from remuda.scores.base import Value
from remuda.scores.config import ScoreConfig
from remuda.scores.evaluator import Evaluator
from remuda.system.devices import find_device


def score_model(judge: Evaluator, model: Model, samples: int, seed: int = 0) -> list[Value]:
    """Scores of samples drawn from p(y) and p(x | y), as ``sample`` draws them."""
    labels = model.choose_labels(samples, None, seed)
    return judge.score(model.generate(labels, seed), labels if model.num_labels else None, seed)


def score(
    run: str | Path,
    *,
    checkpoint: int | None = None,
    device: str = "auto",
    data: str | None = None,
    seed: int = 0,
    say: Callable[[str], None] = print,
    **settings: Any,
) -> list[Value]:
    """Score a run's newest checkpoint, or that of a round; the values go into its record too.

    Settings are those of ScoreConfig, in place of the run's own; ``data`` is a folder with the data sets' files.
    """
    record = Record.open(run)
    config = record.config
    scores: ScoreConfig = from_dict({"scores": {**asdict(config.scores), **settings}}).scores
    place = find_device(device)
    model = load(run, checkpoint, str(place), say)
    source = config.data.in_folder(data).at_root()
    judge = Evaluator(source, scores, place, say, model.num_labels, model.facts.classes)
    values = score_model(judge, model, scores.samples, seed)
    record.add_scores(model.round, values)
    report.write(record.folder)
    return values


def evaluator_of(
    config: RunConfig, device: Any, say: Callable[[str], None], num_labels: int
) -> Evaluator | None:
    """Who scores a running herd; made before the first round, so that what is missing is missed at once."""
    return (
        Evaluator(config.data, config.scores, device, say, num_labels)
        if config.scores.every
        else None
    )


def score_round(
    record: Record, model: Model, judge: Evaluator, samples: int, say: Callable[[str], None]
) -> None:
    """A herd that cannot be scored yet, say because its samples are still all equal, goes on training."""
    try:
        values = score_model(judge, model, samples)
    except UserError as error:
        say(f"round {model.round} has no scores: {error}")
        return
    record.add_scores(model.round, values)
    say(f"round {model.round}: " + ", ".join(f"{value.name} {value.value:.4g}" for value in values))
