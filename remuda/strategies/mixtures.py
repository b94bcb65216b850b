"""Evolve the mixtures of cellular training: each neighbourhood weights its cells' generators.

Cells exchange only features. Each cell samples from its own generator and receives the features of
its neighbours' samples. It then improves its weights with one step of a (1+1)-ES. The model is the
mixture that is closest to the real images. A cell that already has its neighbours' generators can
also sample from all of them itself.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from remuda.data.batches import Batch
from remuda.data.images import to_unit
from remuda.engines.base import Engine
from remuda.gan import Pair
from remuda.gan.contest import Generator
from remuda.population import mixture
from remuda.strategies.context import Context
from remuda.strategies.facts import Mixture
from remuda.strategies.routing import Routing
from remuda.tensors import random, trees
from remuda.tensors.functions import Partial


class Neighbourhoods(NamedTuple):
    """The mixtures of all cells hosted here."""

    generators: Generator  # (cells, individuals, ...): the cells' own generators
    around: Tensor  # (cells, s): ids of the cells in each neighbourhood, its own cell first
    weights: Tensor  # (cells, s)
    present: Tensor  # (cells, s): whether a slot holds a living cell


@dataclass(frozen=True)
class MixtureSearch:
    """The (1+1)-ES that evolves the weights of mixtures."""

    num_samples: int  # images per generator, used to compare mixtures
    mutation: float  # standard deviation of a weight's steps

    def step(
        self,
        context: Context,
        engine: Engine,
        mixtures: Neighbourhoods,
        table: Tensor,
        real: Batch,
        keys: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Run one step for every cell; return the new weights (cells, s) and distances (cells,).

        ``table`` holds the neighbourhoods of all cells, including cells that other ranks host.
        """
        labels = self.sample_labels(real)
        samples = engine.map(Partial(self.draw_samples, context), mixtures.generators, labels, keys)
        features, truth = self.compute_features(context, samples, real)
        around = engine.take(features, table)
        return engine.map(self.improve, mixtures.weights, mixtures.present, around, truth, keys)

    def step_without_exchange(
        self,
        context: Context,
        engine: Engine,
        generators: Generator,  # (cells, s, ...): those of each cell's neighbourhood
        weights: Tensor,  # (cells, s)
        real: Batch,
        keys: Tensor,  # (cells, s): a cell's own key is the first one
    ) -> tuple[Tensor, Tensor]:
        """Run one step as above, but each cell samples from all generators of its mixture itself.

        All samples of a cell have the labels of its own real images.
        """
        labels = self.sample_labels(real)
        samples = engine.map(Partial(self.draw_all_samples, context), generators, labels, keys)
        features, truth = self.compute_features(context, samples.flatten(1, 2), real)
        around = features.unflatten(1, samples.shape[1:3])
        present = torch.ones_like(weights, dtype=torch.bool)
        return engine.map(self.improve, weights, present, around, truth, keys[:, 0])

    def sample_labels(self, real: Batch) -> Tensor:
        """Return the labels of the samples, (cells, samples): those of the real images."""
        labels = real.labels.flatten(1)
        return labels[:, torch.arange(self.num_samples, device=labels.device) % labels.shape[1]]

    def compute_features(
        self, context: Context, samples: Tensor, real: Batch
    ) -> tuple[Tensor, Tensor]:
        """Return the features (cells, n, d) of samples (cells, n, ...) and of real images."""
        images = to_unit(real.images.flatten(1, 2)[:, : self.num_samples])
        both = torch.cat([samples, images], 1)  # (cells, samples + real images, C, H, W)
        features = context.features(both.flatten(0, 1)).unflatten(0, both.shape[:2])
        return features[:, : samples.shape[1]], features[:, samples.shape[1] :]

    def draw_samples(
        self, context: Context, generators: Generator, labels: Tensor, key: Tensor
    ) -> Tensor:
        """Sample from one cell's centre, with the labels of the cell's real images."""
        noise = random.normal(random.fold(key, 7), (self.num_samples, context.gan.networks.latent))
        return context.gan.sample(centre(generators), noise, labels)

    def draw_all_samples(
        self, context: Context, generators: Generator, labels: Tensor, keys: Tensor
    ) -> Tensor:
        """Sample from every generator of one cell's mixture, (s, n, C, H, W)."""
        samples = []
        for i, key in enumerate(keys):
            one = trees.map(lambda leaf, i=i: leaf[i : i + 1], generators)
            samples.append(self.draw_samples(context, one, labels, key))
        return torch.stack(samples)

    def improve(
        self, weights: Tensor, present: Tensor, features: Tensor, truth: Tensor, key: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Run one step for one cell.

        ``features`` (s, n, d) belong to the samples, ``truth`` (m, d) to the real images.
        """
        noise = random.normal(random.fold(key, 9), weights.shape)
        means = mixture.kernels(features, truth)
        return mixture.improve(weights, present, noise, self.mutation, means)

    def run(
        self, context: Context, mixtures: Neighbourhoods, real: Batch, t: int, steps: int
    ) -> tuple[list[float], Tensor, Tensor]:
        """Run many steps after round t for all cells of a population, on fresh samples.

        Return the distances before the first step, then the weights and distances after the last
        step.
        """
        features, truth = self.features(context, mixtures.generators, real, t)
        before, distances, weights = [], [], []
        for cell, own in enumerate(mixtures.weights):
            means = mixture.kernels(features[mixtures.around[cell]], truth[cell])
            distance = mixture.distance(own, means)
            before.append(float(distance))
            key = torch.tensor(random.key(context.seed, "mixture", t, cell), device=own.device)
            for step in range(steps):
                noise = random.normal(random.fold(key, step), own.shape)
                present = mixtures.present[cell]
                own, distance = mixture.improve(own, present, noise, self.mutation, means)
            weights.append(own)
            distances.append(distance)
        return before, torch.stack(weights), torch.stack(distances)

    def features(
        self, context: Context, generators: Generator, real: Batch, t: int
    ) -> tuple[Tensor, Tensor]:
        """Return the features (cells, n, d) of the centres' samples and of the cells' images."""
        num, latent = self.num_samples, context.gan.networks.latent
        images, labels = (leaf.flatten(1, 2)[:, :num] for leaf in real)
        features = []
        for cell in range(len(labels)):
            key = torch.tensor(random.key(context.seed, "mixture-samples", t, cell))
            noise = random.normal(key.to(labels.device), (num, latent))
            own = centre(trees.row(generators, cell))
            features.append(context.features(context.gan.sample(own, noise, labels[cell])))
        truth = context.features(to_unit(images.flatten(0, 1))).unflatten(0, images.shape[:2])
        return torch.stack(features), truth


def centre(generators: Generator) -> Pair:
    """Return a cell's first generator as a pair that can be sampled."""
    first = trees.row(generators, 0)
    return Pair(first.player, first.player, first.average)


def centres(generators: Generator) -> Pair:
    """Return the first generator of every cell hosted here, as pairs that can be sampled."""
    first = trees.map(lambda leaf: leaf[:, 0], generators)
    return Pair(first.player, first.player, first.average)


def draw_authors(
    engine: Engine, around: Tensor, weights: Tensor, distance: Tensor, alive: Tensor, noise: Tensor
) -> Tensor:
    """Draw, for each row of noise, a cell from the best mixture; the tables have a row per cell."""
    cells, weights = _best(engine, around, weights, distance, alive)
    return cells[mixture.draw(weights, noise)]


def mixture_routing(
    engine: Engine, around: Tensor, weights: Tensor, distance: Tensor, alive: Tensor
) -> Routing:
    """Describe ``draw_authors``."""
    cells, weights = _best(engine, around, weights, distance, alive)
    return Routing("noise", tuple(cells.tolist()), tuple(weights.tolist()))


def _best(
    engine: Engine, around: Tensor, weights: Tensor, distance: Tensor, alive: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the cells of the best mixture (s,) and their weights."""
    everyone = torch.arange(engine.size).expand(engine.size, -1)
    distance, alive = trees.row(engine.take((distance, alive), everyone), 0)
    best = torch.full((engine.size,), best_mixture(distance, alive))
    return trees.row(engine.take((around, weights), best), 0)


def best_mixture(distance: Tensor, alive: Tensor) -> int:
    """Return the living cell whose mixture is closest to the real images."""
    return int(torch.where(alive, distance, torch.inf).argmin())


def describe_mixtures(
    around: Tensor, weights: Tensor, distance: Tensor, alive: Tensor, width: int
) -> list[Mixture]:
    """Return a readable description of every cell's mixture."""
    chosen, found = best_mixture(distance, alive), []
    for cell in range(len(weights)):
        by_cell: dict[int, float] = {}
        for other, weight in zip(around[cell].tolist(), weights[cell].tolist(), strict=True):
            # Empty slots hold the cell itself, with weight 0.
            by_cell[other] = by_cell.get(other, 0.0) + weight
        row, column = divmod(cell, width)
        is_alive = bool(alive[cell])
        found.append(
            Mixture(cell, row, column, by_cell, float(distance[cell]), is_alive, cell == chosen)
        )
    return found
