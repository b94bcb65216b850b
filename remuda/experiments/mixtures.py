"""The mixtures of a cellular run: what each neighbourhood's generators weigh, and more steps of their evolution.

Reads the whole state in one process, whatever engine has trained it.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from remuda.config import EngineConfig, RunConfig
from remuda.data.images import to_unit
from remuda.errors import UserError
from remuda.model.model import Model, load
from remuda.model.scoring import score_model
from remuda.population import mixture
from remuda.record.record import Record
from remuda.scores.base import Value
from remuda.scores.evaluator import Evaluator
from remuda.strategies import Cellular
from remuda.strategies.cellular import Cell
from remuda.system.devices import find_device
from remuda.tensors import random
from remuda.training.assemble import Herd, assemble


class Mixture(NamedTuple):
    """Of one cell's neighbourhood."""

    cell: int
    row: int
    column: int
    weights: dict[int, float]  # by cell, the neighbourhood's own first
    distance: float  # from real images, as the state has it
    is_alive: bool
    is_best: bool  # what samples are drawn from


def mixtures(model: Model) -> list[Mixture]:
    """Of every cell, in the order of their numbers."""
    strategy, state = _cellular(model), model.state
    best, found = strategy.best(state), []
    for cell, (around, weights) in enumerate(
        zip(state.around.tolist(), state.weights.tolist(), strict=True)
    ):
        named: dict[int, float] = {}
        for other, weight in zip(around, weights, strict=True):
            named[other] = (
                named.get(other, 0.0) + weight
            )  # empty places name the cell itself, and weigh nothing
        row, column = divmod(cell, strategy.width)
        alive, distance = bool(state.alive[cell]), float(state.distance[cell])
        found.append(Mixture(cell, row, column, named, distance, alive, cell == best))
    return found


def only(model: Model, cell: int) -> Model:
    """The same herd with that cell's mixture as its model."""
    distance = torch.full_like(model.state.distance, torch.inf)
    distance[cell] = 0.0
    return replace(model, state=model.state._replace(distance=distance))


def score(
    run: str | Path,
    model: Model,
    samples: int,
    data: str | None = None,
    seed: int = 0,
    say: Callable[[str], None] = print,
) -> dict[int, list[Value]]:
    """FID of every living cell's mixture by the run's own protocol but for the number of samples; of points, modes."""
    config = _config(Record.open(run), data)
    kinds = "modes" if model.facts.is_points else "fid"
    scores, device = (
        replace(config.scores, kinds=kinds, samples=samples),
        model.state.distance.device,
    )
    judge = Evaluator(config.data, scores, device, say, model.num_labels, model.facts.classes)
    living = [each.cell for each in mixtures(model) if each.is_alive]
    return {cell: score_model(judge, only(model, cell), samples, seed) for cell in living}


def optimise(
    run: str | Path,
    steps: int,
    *,
    checkpoint: int | None = None,
    device: str = "auto",
    data: str | None = None,
) -> tuple[list[float], Model]:
    """Steps of the (1+1)-ES for the weights of all mixtures of a checkpoint, which is then saved anew.

    All steps look at the same samples, fresh ones. Gives every mixture's distance on these before the first step, and
    the model, whose distances are those after the last one: none of them is larger.
    """
    if steps < 1:
        raise UserError(f"the number of steps must be at least 1, not {steps}")
    record = Record.open(run)
    with record.locked():
        model = load(run, checkpoint, str(find_device(device)))
        _cellular(model)
        config = _config(record, data)
        config = replace(config, engine=EngineConfig(device=device, threads=config.engine.threads))
        before, state = evolve(assemble(config), model, steps)
        record.save(model.round, state, config.run.keep_checkpoints, range(len(state.weights)))
    return before, replace(model, state=state)


def evolve(herd: Herd, model: Model, steps: int) -> tuple[list[float], Cell]:
    """The same for a state in memory: distances before, and the state after so many steps."""
    strategy, state, t = _cellular(model), model.state, model.round
    features, truth = look(herd, model)
    present = strategy.links(len(features), t).present.to(features.device)
    before, after, weights = [], [], []
    for cell, own in enumerate(state.weights):
        means = mixture.kernels(features[state.around[cell]], truth[cell])
        distance = mixture.distance(own, means)
        before.append(float(distance))
        key = torch.tensor(random.key(strategy.seed, "mixture", t, cell), device=features.device)
        for step in range(steps):
            noise = random.normal(random.fold(key, step), own.shape)
            own, distance = mixture.improve(
                own, present[cell], noise, strategy.mixture_mutation, means
            )
        weights.append(own)
        after.append(distance)
    return before, state._replace(weights=torch.stack(weights), distance=torch.stack(after))


def look(herd: Herd, model: Model) -> tuple[Tensor, Tensor]:
    """Features (cells, n, d) of samples of every cell's own generator, and of real images that the cell knows."""
    strategy, state, t = _cellular(model), model.state, model.round
    num, glance = (
        strategy.mixture_samples,
        herd.strategy.look,
    )  # a loaded model has not been given the scores' network
    alone = torch.zeros_like(state.weights)
    alone[:, 0] = 1.0
    num_batches = -(-num // strategy.batch_size)
    images, labels = (
        leaf.flatten(1, 2)[:, :num] for leaf in herd.batches.draw(t * herd.num_batches, num_batches)
    )
    features = []
    for cell in range(len(state.weights)):
        key = random.key(strategy.seed, "mixture-samples", t, cell)
        noise = random.normal(
            torch.tensor(key, device=alone.device), (num, strategy.gan.networks.latent)
        )
        features.append(
            glance(strategy.generate_from(state._replace(weights=alone), cell, noise, labels[cell]))
        )
    truth = glance(to_unit(images.flatten(0, 1))).unflatten(0, images.shape[:2])
    return torch.stack(features), truth


def _config(record: Record, data: str | None) -> RunConfig:
    config = record.config
    return replace(config, data=config.data.in_folder(data))


def _cellular(model: Model) -> Cellular:
    if not isinstance(model.strategy, Cellular):
        raise UserError(
            "only runs of the strategy cellular have mixtures: train one, for instance cellular-digits"
        )
    return model.strategy
