"""Score a herd: draw samples from its model, evaluate them, and record the values."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from remuda.config import RunConfig, from_dict, override, to_dict
from remuda.engines import Communicator
from remuda.errors import RanksLost, UserError
from remuda.model.loading import load
from remuda.model.model import Model
from remuda.model.sources import find_origin, without_origin
from remuda.record import Record
from remuda.record.scores import TRAINING_SEED
from remuda.reports import page as report
from remuda.scores.base import Value
from remuda.scores.config import ScoreConfig
from remuda.scores.evaluator import Evaluator
from remuda.scores.sites import Sites
from remuda.system import progress
from remuda.system.background import Background
from remuda.system.devices import find_device
from remuda.system.pytorch import own_stream
from remuda.system.text import Notify, ignore


def score(
    run: str | Path,
    *,
    checkpoint: int | Literal["best"] | None = None,
    device: str = "auto",
    data: str | None = None,
    seed: int = 0,
    notify: Notify = ignore,
    trust: bool = False,
    assignments: Sequence[str] = (),
    site: int | None = None,
    communicator: Communicator | None = None,
    **settings: Any,
) -> list[Value]:
    """Score a run's newest checkpoint, its best one, or that of a round, and record the values.

    ``settings`` are settings of ``ScoreConfig`` that replace those of the run. ``data`` is a folder
    with the files of the data sets. ``notify`` receives messages about slow operations and missing
    scores. If the run brings its own code, ``trust`` must allow to execute it. Each assignment,
    such as ``"data.name=folder:PATH"``, changes another setting for this scoring.

    If each rank of the run has its own data, samples are compared with those of all ranks. Without
    a communicator, this process must be able to read them all. With one, every rank calls this
    function and reads only its own data; only rank 0 returns values. ``site`` chooses the data of
    one rank.
    """
    record = Record.open(run, trust)
    config = _changed(record.config, assignments)
    scores: ScoreConfig = from_dict({"scores": {**asdict(config.scores), **settings}}).scores
    place = find_device(device)
    config = replace(config, data=config.data.in_folder(data), scores=scores)
    origin = find_origin(config, record.folder, site, communicator, place, notify)
    sites = origin.sites
    if sites is not None and not sites.communicator.is_root:
        sites.serve()
        return []
    model = load(run, checkpoint, str(place), notify, trust)
    evaluator = evaluator_of(origin.config, model, place, notify, sites, origin.name)
    values = score_model(evaluator, model, scores.samples, seed)
    if sites is not None:
        sites.communicator.dismiss()
    record.add_scores(model.round, values)
    report.write(record.folder)
    return values


def _changed(config: RunConfig, assignments: Sequence[str]) -> RunConfig:
    """Apply assignments. They may choose data that all ranks share, which have no ranks."""
    ranks = config.data.ranks
    config = replace(config, data=replace(config.data, ranks=()))
    config = from_dict(override(to_dict(config), list(assignments)))
    if not config.data.is_per_rank or config.data.ranks:
        return config
    return replace(config, data=replace(config.data, ranks=ranks))


def score_model(evaluator: Evaluator, model: Model, samples: int, seed: int = 0) -> list[Value]:
    """Draw samples from p(y) and p(x | y), as ``sample`` does, and return their scores."""
    return evaluator.score(*_draw(model, samples, seed, evaluator.num_labels), seed)


def _draw(
    model: Model, samples: int, seed: int, num_labels: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Draw samples of the first classes, if the model knows labels."""
    labels = model.choose_labels(samples, None, seed, num_labels)
    with progress.tracked("drawing samples", samples, "images"):
        images = model.generate(labels, seed)
    return images, labels if model.num_labels else None


def evaluator_of(
    config: RunConfig,
    model: Model,
    device: torch.device,
    notify: Notify,
    sites: Sites | None = None,
    origin: str = "",
) -> Evaluator:
    """Return the evaluator for a trained model; ``config`` states the data and the scores."""
    classes = model.facts.classes
    num_trained = num_trained_classes(config, model.engine.size, len(classes))
    return Evaluator(
        config.data,
        config.scores,
        device,
        notify,
        model.num_labels,
        classes,
        num_trained=num_trained,
        sites=sites,
        origin=origin,
    )


def num_trained_classes(config: RunConfig, num_members: int, num_classes: int) -> int:
    """Return how many classes a run trains: the first ones of the data, or all.

    If every share of the data has one class, there may be fewer shares than classes.
    """
    kind, strategy = config.data.partition, config.strategy
    if kind == "auto":
        kind = strategy.partitions[0]
    if kind != "class":
        return num_classes
    num_ids = num_members + len(config.run.lost)
    return min(strategy.share_groups(num_ids, config.run.members)[-1].stop, num_classes)


def make_evaluator(
    config: RunConfig,
    device: torch.device,
    notify: Notify,
    num_labels: int,
    num_trained: int | None = None,
    sites: Sites | None = None,
) -> Evaluator | None:
    """Return the evaluator for a run that is being trained, or None if it has no scores.

    Call it before the first round, so that missing files fail immediately.
    """
    if not config.scores.every:
        return None
    chosen = without_origin(config.run.keep_best)
    return Evaluator(
        config.data,
        config.scores,
        device,
        notify,
        num_labels,
        chosen=chosen,
        num_trained=num_trained,
        sites=sites,
    )


def score_round(
    record: Record,
    model: Model,
    evaluator: Evaluator,
    samples: int,
    notify: Notify,
    later: Background | None = None,
) -> None:
    """Score the current round of a run that is being trained, and record the values.

    If the model cannot be scored yet, for example because all samples are equal, report this and
    continue training. With ``later``, return when the samples are drawn, and evaluate them in the
    background.
    """
    interruptible = model.communicator.interruptible
    try:
        with interruptible():
            images, labels = _draw(model, samples, TRAINING_SEED, evaluator.num_labels)
    except RanksLost:  # the remaining ranks score the round later
        raise
    except UserError as error:
        return notify(_no_scores(model.round, error))
    evaluate = partial(evaluator.score, images, labels, TRAINING_SEED)
    task = partial(_record_scores, record, model.round, evaluate, notify)
    if later is None:
        task(interruptible())
    else:
        later.submit(partial(task, own_stream(model.engine.device)))


def _record_scores(
    record: Record,
    t: int,
    evaluate: Callable[[], list[Value]],
    notify: Notify,
    around: AbstractContextManager[object],
) -> None:
    try:
        with around:
            values = evaluate()
    except RanksLost:
        raise
    except UserError as error:
        return notify(_no_scores(t, error))
    record.add_scores(t, values)
    shown = ", ".join(f"{value.name} {value.value:.4g}" for value in values)
    notify(f"round {t}: {shown}")


def _no_scores(t: int, error: UserError) -> str:
    return f"round {t} has no scores: {error}"
