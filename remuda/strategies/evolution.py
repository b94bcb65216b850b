"""Evolve the individuals of cells: select, mutate and replace them, and draw opponents."""

from dataclasses import dataclass

import torch
from torch import Tensor

from remuda.data.batches import Batch
from remuda.data.images import to_unit
from remuda.engines.base import Engine
from remuda.gan.contest import Contest, Sides, Turns
from remuda.population.selection import FITNESSES, draw_present, fittest, tournament
from remuda.strategies.context import Metrics
from remuda.tensors import random, trees


@dataclass(frozen=True, eq=False, kw_only=True)
class Evolution:
    """The rules of evolution; their settings are those of ``Cellular``.

    ``own`` holds the individuals of a cell. ``centres`` holds the centres of its neighbourhood,
    starting with its own, and ``present`` (s,) tells which of them exist. Fitness is measured on
    ``images`` and ``labels``.
    """

    contest: Contest
    population: int
    fitness: str
    selection: str
    tournament_size: int
    replacement: str
    lr_mutation: float
    lr_mutation_probability: float

    # Functions of one cell

    def select(
        self,
        own: Sides,
        centres: Sides,
        present: Tensor,
        images: Tensor,
        labels: Tensor,
        key: Tensor,
    ) -> Sides:
        """Return the individuals that train: winners of tournaments, or the cell's own."""
        if self.selection == "none":
            return own
        everyone, there = self._everyone(own, centres, present)
        fitnesses = self._fitnesses(everyone, there, images, labels, key)
        sides = []
        for number, (side, fitness) in enumerate(zip(everyone, fitnesses, strict=True), start=1):
            draws = [random.fold(random.fold(key, number), i) for i in range(self.population)]
            winners = [tournament(fitness, there, draw, self.tournament_size) for draw in draws]
            sides.append(trees.row(side, torch.stack(winners)))
        return Sides(*sides)

    def mutate(self, chosen: Sides, key: Tensor) -> Sides:
        """Add a Gaussian step to each learning rate with some probability.

        A rate that becomes negative changes its sign. Clamping would leave it at 0 for good.
        """
        if not self.lr_mutation:
            return chosen
        sides = []
        for number, side in enumerate(chosen, start=3):
            steps = self.lr_mutation * random.normal(random.fold(key, number), (self.population,))
            draws = random.uniform(random.fold(key, number + 2), (self.population,))
            due = draws < self.lr_mutation_probability
            sides.append(side._replace(lr=torch.where(due, (side.lr + steps).abs(), side.lr)))
        return Sides(*sides)

    def replace(
        self,
        own: Sides,
        trained: Sides,
        centres: Sides,
        present: Tensor,
        images: Tensor,
        labels: Tensor,
        key: Tensor,
    ) -> tuple[Sides, Metrics]:
        """Return the fittest individuals, best first, and the fitness of the first ones.

        The candidates are the cell's own and the trained individuals, or only the trained ones.
        """
        candidates = trees.map(lambda *leaves: torch.cat(leaves), own, trained)
        everyone, there = self._everyone(candidates, centres, present)
        fitnesses = self._fitnesses(everyone, there, images, labels, key)
        first = self.population if self.replacement == "always" else 0
        last = 2 * self.population
        places = [first + fittest(fitness[first:last], self.population) for fitness in fitnesses]
        kept = map(trees.row, candidates, places)
        best = [fitness[place][0] for fitness, place in zip(fitnesses, places, strict=True)]
        return Sides(*kept), {"generator_fitness": best[0], "discriminator_fitness": best[1]}

    def _everyone(self, own: Sides, centres: Sides, present: Tensor) -> tuple[Sides, Tensor]:
        """Join a cell's individuals and its neighbours' centres; also return which are present."""
        everyone = trees.map(lambda mine, theirs: torch.cat([mine, theirs[1:]]), own, centres)
        return everyone, torch.cat([present[:1].expand(len(own.generators.lr)), present[1:]])

    def _fitnesses(
        self, sides: Sides, there: Tensor, images: Tensor, labels: Tensor, key: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the fitness of every individual against the opponents that are present."""
        measure = FITNESSES[self.fitness]
        return self.contest.fitnesses(
            sides,
            lambda losses: measure(losses, there),
            to_unit(images),
            labels,
            random.fold(key, 0),
        )

    # For all cells hosted here

    def opponents(self, centres: Sides) -> Sides | tuple[()]:
        """Return the opponents that the chosen individuals meet in addition to each other.

        Without selection, these are the neighbours' centres from before the round. With
        tournaments, the chosen individuals meet only each other.
        """
        if self.selection == "tournament" or centres.generators.lr.shape[1] == 1:
            return ()
        return trees.map(lambda leaf: leaf[:, 1:], centres)

    def turns(
        self,
        engine: Engine,
        real: Batch,
        there: Tensor,
        keys: Tensor,
        shape: tuple[int, int],
        scheduled: dict[str, Tensor],
    ) -> Turns:
        """Return the inputs of one round of training, (cells, turns, batches per turn, ...).

        ``shape`` contains the last two of these numbers. Noise and keys are drawn as in
        ``Strategy.train_pairs``.
        """
        num_batches, latent = real.labels.shape[1], self.contest.gan.networks.latent
        images, labels = (leaf.unflatten(1, shape) for leaf in real)
        noise = engine.map(lambda key: random.normal(key, (*labels.shape[1:], latent)), keys)
        numbers = torch.arange(num_batches, device=engine.device).reshape(1, *shape)
        pool = there[:, :1].expand(-1, self.population)
        if self.selection == "none":
            pool = torch.cat([pool, there[:, 1:]], 1)
        draws = engine.map(
            lambda key: random.bits(random.fold(key, -1), (*shape, self.population, 3)), keys
        )
        draws = draws.long() & 0x7FFFFFFF
        return Turns(
            images=images,
            labels=labels,
            noise=noise,
            keys=random.fold(keys[:, None, None], numbers),
            rivals=draw_present(draws[..., :2], pool),
            losses=torch.eye(3, device=engine.device)[draws[..., 2] % 3],
            scheduled=scheduled,
        )
