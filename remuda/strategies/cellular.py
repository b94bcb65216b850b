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
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
from torch import Tensor

from remuda.data.batches import Batch
from remuda.data.images import to_unit
from remuda.engines.base import Engine, Scan
from remuda.errors import UserError
from remuda.gan import GAN, Pair
from remuda.gan.contest import Contest, Drawing, Sides, Turns
from remuda.population import mixture, survivors
from remuda.population.topology import Links, neighbourhoods, read_schedule, scheduled_links
from remuda.strategies.base import Context, Metrics, Strategy
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
class Cellular(Strategy):
    """Cellular training.

    The defaults are those of table I of the paper, except for the grid and for
    ``skip_discriminator``, which is 1 in the paper.
    """

    height: int = 2  # rows of the grid, >= 1
    width: int = 2  # columns, >= 1
    # von-neumann: five cells, as in the paper; moore: nine; ring: the two cells with adjacent ids.
    neighbourhood: Literal["von-neumann", "moore", "ring", "none"] = "von-neumann"
    schedule: str = ""  # later neighbourhoods as ROUND: NAME, ..., e.g. "51: moore, 101: none"
    population: int = 1  # generators, and discriminators, in a cell, >= 1
    # How an individual's losses against the neighbourhood become its fitness.
    fitness: Literal["mean", "worst", "best"] = "mean"
    # Which individuals train: winners of tournaments, or the cell's own against all neighbours.
    selection: Literal["tournament", "none"] = "tournament"
    tournament_size: int = 2  # individuals in a tournament, >= 1
    # When trained individuals replace the cell's own: only if they are fitter, or always.
    replacement: Literal["better", "always"] = "better"
    skip_discriminator: int = 0  # batches per turn that train only generators, >= 0
    lr_mutation: float = 1e-4  # standard deviation of a learning rate's steps, >= 0; 0 = none
    lr_mutation_probability: float = 0.5  # for each individual that trains, 0 to 1
    mixture_mutation: float = 0.01  # standard deviation of a weight's steps, > 0
    mixture_samples: int = 256  # images per generator, used to compare mixtures, >= 2
    # Features used to compare images; "network" selects the features of the scoring network.
    mixture_by: Literal["pixels", "network"] = "pixels"
    # When to draw a generator's loss from three losses: never, at its creation, at every update.
    mustangs: Drawing = "none"
    lose_every: int = 0  # rounds after which another cell is lost; one always remains; 0 = never

    partitions: ClassVar[tuple[str, ...]] = ("all", "subset", "iid", "class", "dirichlet")
    # From table III of the paper. The coordinator occupies one of the cores.
    paper_speedups: ClassVar[dict[str, tuple[int, float]]] = {
        "2x2": (5, 8.53),
        "3x3": (10, 13.65),
        "4x4": (17, 15.17),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        bounds = dict.fromkeys(("height", "width", "population", "tournament_size"), 1)
        bounds |= dict.fromkeys(("skip_discriminator", "lr_mutation", "lose_every"), 0)
        for name, least in {**bounds, "mixture_samples": 2}.items():
            value = getattr(self, name)
            if not value >= least:
                raise UserError(f"strategy.{name} must be at least {least}, not {value}")
        probability = self.lr_mutation_probability
        if not 0 <= probability <= 1:
            raise UserError(
                f"strategy.lr_mutation_probability must be in [0, 1], not {probability}"
            )
        if not self.mixture_mutation > 0:
            raise UserError(
                f"strategy.mixture_mutation must be above 0, not {self.mixture_mutation}"
            )
        if self.mustangs != "none" and self.loss not in ("non-saturating", "minimax"):
            raise UserError(
                f"strategy.mustangs requires a loss of probabilities, and the {self.loss} loss is "
                "not one: leave strategy.mustangs at none"
            )
        read_schedule(self.schedule)

    # The size and the neighbourhoods of the population

    @property
    def needs_features(self) -> bool:
        return self.mixture_by == "network"

    @property
    def grid(self) -> tuple[int, int]:
        return self.height, self.width

    def num_members(self, requested: int, num_classes: int) -> int:
        size = self.height * self.width
        if requested not in (0, size):
            raise UserError(
                f"a grid of {self.height}x{self.width} has {size} members, not {requested}: leave "
                "run.members at 0 and set strategy.height and strategy.width"
            )
        return size

    def grow(self, times: int, members: int) -> tuple[Self, int]:
        """Multiply the rows of the grid; the grid decides the number of members."""
        return replace(self, height=times * self.height), members

    def exchange_table(self, size: int, seed: int) -> Tensor:
        return neighbourhoods(self.height, self.width, self.neighbourhood)

    def alive(self, context: Context, size: int, t: int) -> Tensor:
        """Return which cells are alive in round t, (cells,)."""
        num_lost = (t - 1) // self.lose_every if self.lose_every else 0
        return survivors(random.key(context.seed, "lose"), size, num_lost)

    def links(self, context: Context, size: int, t: int) -> Links:
        """Return the neighbourhoods of round t, padded to the largest neighbourhood of the run."""
        kinds = {1: self.neighbourhood, **read_schedule(self.schedule)}
        return scheduled_links(self.height, self.width, kinds, self.alive(context, size, t), t)

    # The amount of work in a round

    @property
    def batches_per_turn(self) -> int:
        """Batches in one turn: first those for discriminators, then those only for generators."""
        return self.discriminator_steps + self.skip_discriminator

    @property
    def steps_per_turn(self) -> int:
        """Generator updates in one turn."""
        return 1 + self.skip_discriminator

    def batches_per_round(self, images_per_member: float) -> int:
        steps = self.steps_per_round or images_per_member / (
            self.batch_size * self.batches_per_turn / self.steps_per_turn
        )
        num_batches = int(-(-steps // self.steps_per_turn)) * self.batches_per_turn
        if num_batches * self.batch_size < 2:
            raise UserError(
                "a cell needs at least two real images in a round: raise strategy.batch_size or "
                "strategy.steps_per_round"
            )
        return num_batches

    def steps_in(self, num_batches: int) -> int:
        return num_batches // self.batches_per_turn * self.steps_per_turn

    def batches_for(self, steps: int) -> int:
        return -(-steps // self.steps_per_turn) * self.batches_per_turn

    # The method of the paper

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
