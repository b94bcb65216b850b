"""Cellular: pairs on a torus compete with those of their neighbours, and fitter pairs spread.

E. Perez, S. Nesmachnow, J. Toutouh, E. Hemberg, U. O'Reilly, "Parallel/distributed implementation
of cellular training for generative adversarial neural networks", 2020: Lipizzaner and Mustangs on
MPI.

    cell <- neighbours    centres: G and D with their optimizers and learning rates
    cell                  fitness of every G against every D of the neighbourhood, and the reverse
                          tournaments decide which individuals train (or the cell's own train)
                          mutate learning rates, train over the batches against drawn opponents
                          trained individuals stay if they are fitter than the cell's own
    cell <- neighbours    features of the new centres' samples
    cell                  mutate the weights of the neighbourhood's mixture;
                          keep them if the mixture moves closer to the data (mixtures.py)

A round is one of these iterations. The model is the best neighbourhood's mixture of generators.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from remuda.data.batches import Batch
from remuda.data.images import to_unit
from remuda.engines.base import Engine, Scan
from remuda.gan import GAN, Pair
from remuda.gan.contest import Contest, Sides, Turns
from remuda.population import mixture
from remuda.strategies.cellular_settings import CellularSettings
from remuda.strategies.context import Context, Metrics
from remuda.strategies.evolution import Evolution
from remuda.strategies.facts import Mixture
from remuda.strategies.mixtures import (
    MixtureSearch,
    Neighbourhoods,
    centres,
    describe_mixtures,
    draw_authors,
)
from remuda.tensors import random, trees
from remuda.tensors.functions import Partial


class Cell(NamedTuple):
    """The state of a cell. The state of the population has one row per cell."""

    sides: Sides  # the cell's own individuals, the centre first
    around: Tensor  # (s,) ids of the cells in its neighbourhood, itself first
    weights: Tensor  # (s,) weights of the generators in the neighbourhood's mixture
    distance: Tensor  # distance of that mixture from real images
    alive: Tensor


@dataclass(frozen=True, kw_only=True)
class Cellular(CellularSettings):
    """Cellular training; the state has one row per cell."""

    def init(self, context: Context, engine: Engine) -> Cell:
        table, present = self.links(context, engine.size, 1)
        contest = self.evolution(context.gan).contest

        def create(member: int) -> Cell:
            # A cell's first individual has the same key as in a population of 1.
            numbers = [(), *((i,) for i in range(1, self.population))]
            keys = [random.key(context.seed, "init", member, *number) for number in numbers]
            return Cell(
                sides=contest.new_individuals(keys),
                around=table[member],
                weights=mixture.uniform(present[member]),
                distance=torch.zeros((), dtype=torch.float64),
                alive=torch.tensor(True),
            )

        return engine.create(create)

    def round(
        self, context: Context, engine: Engine, state: Cell, real: Batch, t: int
    ) -> tuple[Cell, Metrics]:
        table, present = self.links(context, engine.size, t)
        here, everyone = torch.tensor(list(engine.members)), self.alive(context, engine.size, t)
        around, there, alive = (each[here].to(engine.device) for each in (table, present, everyone))
        keys = random.keys(context.seed, "cells", engine.members, t, device=engine.device)
        evaluation = real.images[:, 0], real.labels[:, 0]  # fitness is measured on these
        factor = self.scheduled(t, 1).get("penalty_factor", torch.ones(1)).item()
        evolution = self.evolution(context.gan, factor)
        with engine.timed("gather"):
            centres = engine.take(trees.map(lambda leaf: leaf[:, 0], state.sides), table)
        with engine.timed("update_genomes"):
            chosen = engine.map(evolution.select, state.sides, centres, there, *evaluation, keys)
        with engine.timed("mutate"):
            chosen = engine.map(evolution.mutate, chosen, keys)
        with engine.timed("train"):
            step_keys = random.keys(context.seed, "steps", engine.members, t, device=engine.device)
            shape = real.labels.shape[1] // self.batches_per_turn, self.batches_per_turn
            scheduled = self.scheduled_rows(engine, t, shape, self.steps_per_turn)
            turns = evolution.turns(engine, real, there, step_keys, shape, scheduled)
            train = Scan(Partial(self.train, context))
            opponents = evolution.opponents(centres)
            (trained, _), losses = engine.map(train, (chosen, opponents), turns)
        with engine.timed("update_genomes"):
            sides = engine.map(
                evolution.replace, state.sides, trained, centres, there, *evaluation, keys
            )
        with engine.timed("mutate"):
            moved = (state.around != around).any(1, keepdim=True)
            weights = torch.where(moved, mixture.uniform(there), state.weights)
            mixed = Neighbourhoods(sides.generators, around, weights, there)
            weights, distance = self.search.step(context, engine, mixed, table, real, keys)
        metrics = trees.map(lambda x: x.mean(1), losses | sides.discriminators.player.metrics())
        metrics["generator_lr"] = sides.generators.lr.mean(1)
        metrics["discriminator_lr"] = sides.discriminators.lr.mean(1)
        metrics["mixture_distance"] = distance
        return Cell(sides, around, weights, distance, alive), metrics

    def evolution(self, gan: GAN, penalty_factor: float = 1.0) -> Evolution:
        """Return the rules that select, mutate and replace individuals."""
        own_rates, steps = self.lr_mutation > 0, self.discriminator_steps
        return Evolution(
            contest=Contest(gan, steps, own_rates, self.mustangs, penalty_factor),
            population=self.population,
            fitness=self.fitness,
            selection=self.selection,
            tournament_size=self.tournament_size,
            replacement=self.replacement,
            lr_mutation=self.lr_mutation,
            lr_mutation_probability=self.lr_mutation_probability,
        )

    def train(
        self, context: Context, carry: tuple[Sides, Any], turns: Turns
    ) -> tuple[tuple[Sides, Any], Metrics]:
        """Train the chosen individuals of one cell for one turn."""
        sides, others = carry
        turns = turns._replace(images=to_unit(turns.images))
        sides, losses = self.evolution(context.gan).contest.train(sides, others or None, turns)
        return (sides, others), losses

    # The model: the best neighbourhood's mixture

    @property
    def search(self) -> MixtureSearch:
        """The search that evolves the weights of mixtures."""
        return MixtureSearch(self.mixture_samples, self.mixture_mutation)

    def authors(self, engine: Engine, state: Cell, noise: Tensor, labels: Tensor) -> Tensor:
        return draw_authors(engine, state.around, state.weights, state.distance, state.alive, noise)

    def generators(self, engine: Engine, state: Cell) -> Pair:
        return centres(state.sides.generators)

    def mixtures(self, state: Cell) -> list[Mixture]:
        _, around, weights, distance, alive = state
        return describe_mixtures(around, weights, distance, alive, self.width)

    def choose_mixture(self, state: Cell, cell: int) -> Cell:
        distance = torch.full_like(state.distance, torch.inf)
        distance[cell] = 0.0
        return state._replace(distance=distance)

    def evolve_mixtures(
        self, context: Context, state: Cell, draw_real: Callable[[int], Batch], t: int, steps: int
    ) -> tuple[list[float], Cell]:
        real = draw_real(-(-self.mixture_samples // self.batch_size))
        present = self.links(context, len(state.weights), t).present.to(state.weights.device)
        generators = state.sides.generators
        mixed = Neighbourhoods(generators, state.around, state.weights, present)
        before, weights, distance = self.search.run(context, mixed, real, t, steps)
        return before, state._replace(weights=weights, distance=distance)
