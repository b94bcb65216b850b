"""Score a herd: draw samples from its model, evaluate them, and record the values."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from remuda.config import RunConfig, from_dict
from remuda.errors import UserError
from remuda.model.model import Model, load
from remuda.record import Record
from remuda.reports import page as report
from remuda.scores.base import Value
from remuda.scores.config import ScoreConfig
from remuda.scores.evaluator import Evaluator
from remuda.system.devices import find_device
from remuda.system.text import Notify, ignore


def score(
    run: str | Path,
    *,
    checkpoint: int | None = None,
    device: str = "auto",
    data: str | None = None,
    seed: int = 0,
    notify: Notify = ignore,
    **settings: Any,
) -> list[Value]:
    """Score a run's newest checkpoint, or the checkpoint of a round, and record the values.

    ``settings`` are settings of ``ScoreConfig`` that replace those of the run. ``data`` is a folder
    with the files of the data sets. ``notify`` receives messages about slow operations and missing
    scores.
    """
    record = Record.open(run)
    config = record.config
    scores: ScoreConfig = from_dict({"scores": {**asdict(config.scores), **settings}}).scores
    place = find_device(device)
    model = load(run, checkpoint, str(place), notify)
    source = config.data.in_folder(data).at_root()
    evaluator = Evaluator(source, scores, place, notify, model.num_labels, model.facts.classes)
    values = score_model(evaluator, model, scores.samples, seed)
    record.add_scores(model.round, values)
    report.write(record.folder)
    return values


def score_model(evaluator: Evaluator, model: Model, samples: int, seed: int = 0) -> list[Value]:
    """Draw samples from p(y) and p(x | y), as ``sample`` does, and return their scores."""
    labels = model.choose_labels(samples, None, seed)
    images = model.generate(labels, seed)
    return evaluator.score(images, labels if model.num_labels else None, seed)


def make_evaluator(
    config: RunConfig, device: torch.device, notify: Notify, num_labels: int
) -> Evaluator | None:
    """Return the evaluator for a run that is being trained, or None if it has no scores.

    Call it before the first round, so that missing files fail immediately.
    """
    if not config.scores.every:
        return None
    return Evaluator(config.data, config.scores, device, notify, num_labels)


def score_round(
    record: Record, model: Model, evaluator: Evaluator, samples: int, notify: Notify
) -> None:
    """Score the current round of a run that is being trained, and record the values.

    If the model cannot be scored yet, for example because all samples are equal, report this and
    continue training.
    """
    try:
        with model.communicator.interruptible():
            values = score_model(evaluator, model, samples)
    except UserError as error:
        notify(f"round {model.round} has no scores: {error}")
        return
    record.add_scores(model.round, values)
    shown = ", ".join(f"{value.name} {value.value:.4g}" for value in values)
    notify(f"round {model.round}: {shown}")
