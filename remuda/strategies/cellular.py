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
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from remuda.data.batches import Batch
from remuda.data.images import to_unit
from remuda.engines.base import Engine, Scan
from remuda.errors import UserError
from remuda.gan import GAN, Pair
from remuda.gan.contest import Contest, Sides, Turns
from remuda.population import mixture, survivors
from remuda.population.topology import Links, read_schedule, scheduled_links
from remuda.strategies.cellular_settings import CellularSettings
from remuda.strategies.context import Context, Metrics, Report
from remuda.strategies.evolution import Evolution
from remuda.strategies.facts import Mixture
from remuda.strategies.mixtures import (
    MixtureSearch,
    Neighbourhoods,
    centres,
    describe_mixtures,
    draw_authors,
    mixture_routing,
)
from remuda.strategies.routing import Routing
from remuda.tensors import random, trees
from remuda.tensors.functions import Partial
from remuda.tensors.trees import Tree


class Cell(NamedTuple):
    """The state of a cell. The state of the population has one row per cell."""

    sides: Sides  # the cell's own individuals, the centre first
    around: Tensor  # (s,) ids of the cells in its neighbourhood, itself first
    weights: Tensor  # (s,) weights of the generators in the neighbourhood's mixture
    distance: Tensor  # distance of that mixture from real images
    alive: Tensor

    def centres(self) -> Sides:
        """Return the first individuals of all cells hosted here."""
        return trees.map(lambda leaf: leaf[:, 0], self.sides)

    def metrics(self) -> Metrics:
        """Return the metrics of all cells hosted here, except for losses."""
        generators, discriminators = self.sides
        metrics = trees.map(lambda x: x.mean(1), discriminators.player.metrics())
        return metrics | {
            "generator_lr": generators.lr.mean(1),
            "discriminator_lr": discriminators.lr.mean(1),
            "mixture_distance": self.distance,
        }

    def facts(self) -> dict[str, Tree]:
        """Return the mixtures of all cells hosted here; empty slots have the weight 0."""
        return {"mixture_weights": self.weights, "neighbours": self.around}


@dataclass(frozen=True, kw_only=True)
class Cellular(CellularSettings):
    """Cellular training; the state has one row per cell."""

    schedule: str = ""  # later neighbourhoods as ROUND: NAME, ..., e.g. "51: moore, 101: none"
    lose_every: int = 0  # rounds after which another cell is lost; one always remains; 0 = never

    # A network that breaks in training also spoils the fitness of its opponents, but is replaced.
    may_be_undefined: ClassVar[frozenset[str]] = frozenset(
        {"generator_fitness", "discriminator_fitness"}
    )
    # From table III of the paper. The coordinator occupies one of the cores.
    paper_speedups: ClassVar[dict[str, tuple[int, float]]] = {
        "2x2": (5, 8.53),
        "3x3": (10, 13.65),
        "4x4": (17, 15.17),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lose_every < 0:
            raise UserError(f"strategy.lose_every must be at least 0, not {self.lose_every}")
        read_schedule(self.schedule)

    def alive(self, context: Context, size: int, t: int) -> Tensor:
        """Return which cells are alive in round t, (cells,)."""
        num_lost = (t - 1) // self.lose_every if self.lose_every else 0
        return survivors(random.key(context.seed, "lose"), size, num_lost)

    def links(self, context: Context, size: int, t: int) -> Links:
        """Return the neighbourhoods of round t, padded to the largest neighbourhood of the run."""
        kinds = {1: self.neighbourhood, **read_schedule(self.schedule)}
        return scheduled_links(self.height, self.width, kinds, self.alive(context, size, t), t)

    # The method

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
        with engine.timed("gather"):
            centres = engine.take(state.centres(), table)
        sides, results = self.iterate(context, engine, state.sides, centres, there, real, t)
        with engine.timed("mutate"):
            keys = random.keys(context.seed, "cells", engine.members, t, device=engine.device)
            moved = (state.around != around).any(1, keepdim=True)
            weights = torch.where(moved, mixture.uniform(there), state.weights)
            mixed = Neighbourhoods(sides.generators, around, weights, there)
            weights, distance = self.search.step(context, engine, mixed, table, real, keys)
        state = Cell(sides, around, weights, distance, alive)
        return state, Report(results | state.metrics(), state.facts())

    def iterate(
        self,
        context: Context,
        engine: Engine,
        own: Sides,
        centres: Sides,  # (cells, s, ...): of the neighbourhoods
        there: Tensor,  # (cells, s): which of them exist
        real: Batch,
        t: int,
    ) -> tuple[Sides, Metrics]:
        """Run iteration t of all cells hosted here.

        Return the new individuals, the mean losses and the fitness of the new centres.
        """
        keys = random.keys(context.seed, "cells", engine.members, t, device=engine.device)
        evaluation = real.images[:, 0], real.labels[:, 0]  # fitness is measured on these
        factor = self.scheduled(t, 1).get("penalty_factor", torch.ones(1)).item()
        evolution = self.evolution(context.gan, factor)
        with engine.timed("update_genomes"):
            chosen = engine.map(evolution.select, own, centres, there, *evaluation, keys)
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
            sides, fitness = engine.map(
                evolution.replace, own, trained, centres, there, *evaluation, keys
            )
        return sides, trees.map(lambda x: x.mean(1), losses) | fitness

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

    def routing(self, context: Context, engine: Engine, state: Cell) -> Routing:
        return mixture_routing(engine, state.around, state.weights, state.distance, state.alive)

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
