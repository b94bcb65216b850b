"""Show and score the mixtures of a cellular run, and evolve their weights further.

All functions read the whole state in one process, regardless of the engine that trained it.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from remuda.config import EngineConfig, RunConfig
from remuda.data.batches import Batch
from remuda.errors import UserError
from remuda.model.loading import load
from remuda.model.model import Model
from remuda.model.scoring import evaluator_of, score_model
from remuda.record import Record
from remuda.record.checkpoints import Leaves
from remuda.scores.base import Value
from remuda.strategies.facts import Mixture
from remuda.system.devices import find_device
from remuda.system.text import Notify, ignore
from remuda.tensors import trees
from remuda.training.assemble import assemble, pytorch_settings
from remuda.training.herd import Herd


def mixtures(model: Model) -> list[Mixture]:
    """Return the mixture of every cell, ordered by cell number."""
    return model.strategy.mixtures(model.state)


def only(model: Model, cell: int) -> Model:
    """Return a model that samples only from this cell's mixture."""
    return replace(model, state=model.strategy.choose_mixture(model.state, cell))


def score(
    run: str | Path,
    model: Model,
    samples: int,
    data: str | None = None,
    seed: int = 0,
    notify: Notify = ignore,
) -> dict[int, list[Value]]:
    """Return the FID of each living cell's mixture or, for point data, its number of modes.

    The scores are computed with the run's own protocol, except for the number of samples.
    """
    config = _config(Record.open(run), data)
    kinds = "modes" if model.facts.is_points else "fid"
    scores = replace(config.scores, kinds=kinds, samples=samples)
    device = trees.leaves(model.state)[0].device
    evaluator = evaluator_of(replace(config, scores=scores), model, device, notify)
    living = [each.cell for each in mixtures(model) if each.is_alive]
    return {cell: score_model(evaluator, only(model, cell), samples, seed) for cell in living}


def optimise(
    run: str | Path,
    steps: int,
    *,
    checkpoint: int | None = None,
    device: str = "auto",
    data: str | None = None,
    notify: Notify = ignore,
) -> tuple[list[float], Model]:
    """Evolve the weights of all mixtures with the (1+1)-ES, and update the checkpoint.

    All steps use the same new samples. Return every mixture's distance on these samples before the
    first step, and the model after the last step. The distances never increase.
    """
    if steps < 1:
        raise UserError(f"the number of steps must be at least 1, not {steps}")
    record = Record.open(run)
    with record.locked():
        model = load(run, checkpoint, str(find_device(device)), notify)
        mixtures(model)  # raises if the strategy has none
        config = _config(record, data)
        config = replace(config, engine=EngineConfig(device=device, threads=config.engine.threads))
        with pytorch_settings(config.engine):
            before, state = evolve(assemble(config, notify=notify), model, steps)
        leaves = Leaves.of(config.strategy, state)
        record.save(model.round, leaves, config.run.keep_checkpoints, range(len(before)))
    return before, replace(model, state=state)


def evolve(herd: Herd, model: Model, steps: int) -> tuple[list[float], Any]:
    """Evolve the weights in memory; return the distances before and the state after."""
    start = model.round * herd.num_batches

    def draw_real(count: int) -> Batch:
        return herd.batches.draw(start, count)

    return herd.strategy.evolve_mixtures(herd.context, model.state, draw_real, model.round, steps)


def _config(record: Record, data: str | None) -> RunConfig:
    config = record.config
    return replace(config, data=config.data.in_folder(data))
