"""Cellular: pairs on a torus compete with their neighbours', and the fitter ones spread.

E. Perez, S. Nesmachnow, J. Toutouh, E. Hemberg, U. O'Reilly, "Parallel/distributed implementation of cellular training
for generative adversarial neural networks", 2020: Lipizzaner and Mustangs on MPI.

    cell <- neighbours    centres: G and D with their optimizers and learning rates
    cell                  fitness of every G against every D of the neighbourhood, and the reverse
                          tournaments decide who trains (or the cell's own do)
                          mutate learning rates, train over the batches against drawn opponents
                          the trained ones stay if they are fitter than the cell's own
    cell <- neighbours    features of the new centres' samples
    cell                  mutate the weights of the neighbourhood's mixture, keep them if it comes closer to the data

A round is one such iteration. The model is the best neighbourhood's mixture of generators.
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
from remuda.population.selection import FITNESSES, draw_present, fittest, tournament
from remuda.population.topology import Links, links, neighbourhoods, read_schedule
from remuda.strategies.base import Context, Metrics, Mixture, Strategy
from remuda.tensors import random, trees
from remuda.tensors.functions import Partial

Neighbourhood = Literal["von-neumann", "moore", "ring", "none"]


class Cell(NamedTuple):
    """Rows of the state."""

    sides: Sides  # the cell's own individuals, the centre first
    around: Tensor  # (s,) ids of its neighbourhood, itself first
    weights: Tensor  # (s,) of the generators in the neighbourhood's mixture
    distance: Tensor  # of that mixture from real images
    alive: Tensor


@dataclass(frozen=True, kw_only=True)
class Cellular(Strategy):
    """The defaults are those of the paper's table I, but for the grid and ``skip_discriminator`` (1 there)."""

    height: int = 2  # rows of the grid, >= 1
    width: int = 2  # columns, >= 1
    neighbourhood: Neighbourhood = (
        "von-neumann"  # the paper's five cells; moore: nine; ring: two, by number; none
    )
    schedule: str = ""  # other neighbourhoods from a round on, such as "51: moore, 101: none"
    population: int = 1  # individuals of each side in a cell, >= 1
    fitness: Literal["mean", "worst", "best"] = (
        "mean"  # of an individual's losses against the neighbourhood
    )
    selection: Literal["tournament", "none"] = (
        "tournament"  # who trains: winners, or the cell's own, against all
    )
    tournament_size: int = 2  # contenders, >= 1
    replacement: Literal["better", "always"] = (
        "better"  # when trained ones take the places of the cell's own
    )
    skip_discriminator: int = 0  # batches after each on which only generators learn, >= 0
    lr_mutation: float = 1e-4  # standard deviation of a learning rate's steps, >= 0; 0 = none
    lr_mutation_probability: float = 0.5  # for each individual that trains, 0 to 1
    mixture_mutation: float = 0.01  # standard deviation of a weight's steps, > 0
    mixture_samples: int = 256  # images of each generator by which mixtures are compared, >= 2
    mixture_by: Literal["pixels", "network"] = (
        "pixels"  # what images are compared by; network: that of the scores
    )
    mustangs: Drawing = "none"  # when a generator's loss is drawn from three: never, at its creation, at every update
    lose_every: int = (
        0  # rounds after which one cell leaves for good, and so on to the last; 0 = none
    )

    # Table III of the paper. One core more than cells: the coordinator's.
    paper_speedups: ClassVar[dict[str, tuple[int, float]]] = {
        "2x2": (5, 8.53),
        "3x3": (10, 13.65),
        "4x4": (17, 15.17),
    }
    partitions: ClassVar[tuple[str, ...]] = ("all", "subset", "iid", "class", "dirichlet")

    def __post_init__(self):
        super().__post_init__()
        least = {
            "height": 1,
            "width": 1,
            "population": 1,
            "tournament_size": 1,
            "mixture_samples": 2,
        }
        for name, bound in {
            **least,
            "skip_discriminator": 0,
            "lr_mutation": 0,
            "lose_every": 0,
        }.items():
            if not getattr(self, name) >= bound:
                raise UserError(
                    f"strategy.{name} must be at least {bound}, not {getattr(self, name)}"
                )
        if not 0 <= self.lr_mutation_probability <= 1:
            raise UserError(
                f"strategy.lr_mutation_probability must be in [0, 1], not {self.lr_mutation_probability}"
            )
        if not self.mixture_mutation > 0:
            raise UserError(
                f"strategy.mixture_mutation must be above 0, not {self.mixture_mutation}"
            )
        if self.mustangs != "none" and self.loss not in ("non-saturating", "minimax"):
            raise UserError(
                f"strategy.mustangs draws losses of probabilities, not of {self.loss}: leave it at none"
            )
        read_schedule(self.schedule)

    @property
    def needs_features(self) -> bool:
        return self.mixture_by == "network"

    @property
    def grid(self) -> tuple[int, int]:
        return self.height, self.width

    def contest(self, gan: GAN) -> Contest:
        return Contest(gan, self.discriminator_steps, self.lr_mutation > 0, self.mustangs)

    def num_members(self, requested: int, num_classes: int) -> int:
        size = self.height * self.width
        if requested not in (0, size):
            raise UserError(
                f"a grid of {self.height}x{self.width} has {size} members, not {requested}: leave run.members at 0 and "
                "set strategy.height and strategy.width"
            )
        return size

    @property
    def batches_per_turn(self) -> int:
        return self.discriminator_steps + self.skip_discriminator

    def batches_per_round(self, images_per_member: float) -> int:
        updates_per_turn = 1 + self.skip_discriminator
        updates = self.steps_per_round or images_per_member / (
            self.batch_size * self.batches_per_turn / updates_per_turn
        )
        num_batches = int(-(-updates // updates_per_turn)) * self.batches_per_turn
        if num_batches * self.batch_size < 2:
            raise UserError(
                "a cell needs two real images a round: raise strategy.batch_size or steps_per_round"
            )
        return num_batches

    def steps_in(self, num_batches: int) -> int:
        return num_batches // self.batches_per_turn * (1 + self.skip_discriminator)

    def batches_for(self, steps: int) -> int:
        num_turns = -(-steps // (1 + self.skip_discriminator))
        return num_turns * self.batches_per_turn

    def grow(self, times: int, members: int) -> tuple[Self, int]:
        """Multiply the rows of the grid; the grid decides the number of members."""
        return replace(self, height=times * self.height), members

    def exchange_table(self, size: int, seed: int) -> Tensor:
        return neighbourhoods(self.height, self.width, self.neighbourhood)

    def alive(self, context: Context, size: int, t: int) -> Tensor:
        num_lost = (t - 1) // self.lose_every if self.lose_every else 0
        return survivors(random.key(context.seed, "lose"), size, num_lost)

    def links(self, context: Context, size: int, t: int) -> Links:
        """Who is whose neighbour in round t; as wide as the widest neighbourhood of the run."""
        kinds = {1: self.neighbourhood, **read_schedule(self.schedule)}
        tables = {
            start: neighbourhoods(self.height, self.width, kind) for start, kind in kinds.items()
        }
        current = max(start for start in tables if start <= t)
        return links(
            tables[current],
            self.alive(context, size, t),
            max(table.shape[1] for table in tables.values()),
        )

    def init(self, context: Context, engine: Engine) -> Cell:
        table, present = self.links(context, engine.size, 1)

        def create(member: int) -> Cell:
            # The first of a cell is seeded as its only one would be.
            numbers = [(), *((i,) for i in range(1, self.population))]
            sides = self.contest(context.gan).enter(
                [random.key(context.seed, "init", member, *number) for number in numbers]
            )
            weights = mixture.uniform(present[member])
            return Cell(
                sides,
                table[member],
                weights,
                torch.zeros((), dtype=torch.float64),
                torch.tensor(True),
            )

        return engine.create(create)

    def round(
        self, context: Context, engine: Engine, state: Cell, real: Batch, t: int
    ) -> tuple[Cell, Metrics]:
        table, present = self.links(context, engine.size, t)
        here = torch.tensor(list(engine.members))
        around, there, alive = (
            each[here].to(engine.device)
            for each in (table, present, self.alive(context, engine.size, t))
        )
        keys = random.keys(context.seed, "cells", engine.members, t, device=engine.device)
        shown = real.images[:, 0], real.labels[:, 0]  # by which fitness is measured
        with engine.timed("gather"):
            centres = engine.take(trees.map(lambda leaf: leaf[:, 0], state.sides), table)
        with engine.timed("update_genomes"):
            chosen = engine.map(
                Partial(self.select, context), state.sides, centres, there, *shown, keys
            )
        with engine.timed("mutate"):
            chosen = engine.map(self.mutate, chosen, keys)
        with engine.timed("train"):
            turns = self.turns(context, engine, real, there, t)
            (trained, _), losses = engine.map(
                Scan(Partial(self.train, context)), (chosen, self.opponents(centres)), turns
            )
        with engine.timed("update_genomes"):
            sides = engine.map(
                Partial(self.replace, context), state.sides, trained, centres, there, *shown, keys
            )
        with engine.timed("mutate"):
            moved = (state.around != around).any(1, keepdim=True)
            weights = torch.where(moved, mixture.uniform(there), state.weights)
            state = self.mix(
                context,
                engine,
                Cell(sides, around, weights, state.distance, alive),
                real,
                there,
                table,
                keys,
            )
        rates = {
            "generator_lr": sides.generators.lr.mean(1),
            "discriminator_lr": sides.discriminators.lr.mean(1),
        }
        losses = {name: values.mean(1) for name, values in losses.items()}
        return state, {**losses, **rates, "mixture_distance": state.distance}

    # For one cell

    def select(
        self,
        context: Context,
        own: Sides,
        centres: Sides,
        present: Tensor,
        images: Tensor,
        labels: Tensor,
        key: Tensor,
    ) -> Sides:
        """Who trains: the winners of tournaments among the neighbourhood, with all they have; or the cell's own."""
        if self.selection == "none":
            return own
        everyone, there = self._everyone(own, centres, present)
        fitnesses = self._fitnesses(context, everyone, there, images, labels, key)
        sides = []
        for number, (side, fitness) in enumerate(zip(everyone, fitnesses, strict=True), start=1):
            draws = [random.fold(random.fold(key, number), i) for i in range(self.population)]
            winners = torch.stack(
                [tournament(fitness, there, draw, self.tournament_size) for draw in draws]
            )
            sides.append(trees.row(side, winners))
        return Sides(*sides)

    def mutate(self, chosen: Sides, key: Tensor) -> Sides:
        """Learning rates take a Gaussian step, or not; what would be negative is mirrored, so that none dies."""
        if not self.lr_mutation:
            return chosen
        sides = []
        for number, side in enumerate(chosen, start=3):
            steps = self.lr_mutation * random.normal(random.fold(key, number), (self.population,))
            due = (
                random.uniform(random.fold(key, number + 2), (self.population,))
                < self.lr_mutation_probability
            )
            sides.append(side._replace(lr=torch.where(due, (side.lr + steps).abs(), side.lr)))
        return Sides(*sides)

    def train(
        self, context: Context, carry: tuple[Sides, Any], turns: Turns
    ) -> tuple[tuple[Sides, Any], Metrics]:
        sides, others = carry
        turns = turns._replace(images=to_unit(turns.images))
        sides, losses = self.contest(context.gan).train(sides, others or None, turns)
        return (sides, others), losses

    def replace(
        self,
        context: Context,
        own: Sides,
        trained: Sides,
        centres: Sides,
        present: Tensor,
        images: Tensor,
        labels: Tensor,
        key: Tensor,
    ) -> Sides:
        """The fittest of the cell's own and the trained stay, the centre first; or the trained in any case."""
        candidates = trees.map(lambda *leaves: torch.cat(leaves), own, trained)
        everyone, there = self._everyone(candidates, centres, present)
        fitnesses = self._fitnesses(context, everyone, there, images, labels, key)
        first, last = self.population if self.replacement == "always" else 0, 2 * self.population
        kept = [
            trees.row(side, first + fittest(fitness[first:last], self.population))
            for side, fitness in zip(candidates, fitnesses, strict=True)
        ]
        return Sides(*kept)

    def _everyone(self, own: Sides, centres: Sides, present: Tensor) -> tuple[Sides, Tensor]:
        """The cell's own and its neighbours' centres, and who of them is there."""
        everyone = trees.map(lambda mine, theirs: torch.cat([mine, theirs[1:]]), own, centres)
        return everyone, torch.cat([present[:1].expand(len(own.generators.lr)), present[1:]])

    def _fitnesses(
        self,
        context: Context,
        sides: Sides,
        there: Tensor,
        images: Tensor,
        labels: Tensor,
        key: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Of everyone against those there."""
        measure = FITNESSES[self.fitness]
        return self.contest(context.gan).fitnesses(
            sides,
            lambda losses: measure(losses, there),
            to_unit(images),
            labels,
            random.fold(key, 0),
        )

    # For all cells hosted here

    def opponents(self, centres: Sides) -> Sides | tuple[()]:
        """Whom the chosen meet besides each other: where there is no selection, the neighbours as they were."""
        if self.selection == "tournament" or centres.generators.lr.shape[1] == 1:
            return ()
        return trees.map(lambda leaf: leaf[:, 1:], centres)

    def turns(self, context: Context, engine: Engine, real: Batch, there: Tensor, t: int) -> Turns:
        """What is played with in a round (cells, turns, batches of a turn, ...); drawn as ``train_pairs`` draws."""
        shape = real.labels.shape[1] // self.batches_per_turn, self.batches_per_turn
        images, labels = (leaf.unflatten(1, shape) for leaf in real)
        keys = random.keys(context.seed, "steps", engine.members, t, device=engine.device)
        noise = engine.map(
            lambda key: random.normal(key, (*labels.shape[1:], context.gan.networks.latent)), keys
        )
        places = torch.arange(real.labels.shape[1], device=engine.device).reshape(1, *shape)
        pool = there[:, :1].expand(-1, self.population)
        if self.selection == "none":
            pool = torch.cat([pool, there[:, 1:]], 1)
        draws = engine.map(
            lambda key: (
                random.bits(random.fold(key, -1), (*shape, self.population, 3)).long() & 0x7FFFFFFF
            ),
            keys,
        )
        rivals = draw_present(draws[..., :2], pool)
        losses = torch.eye(3, device=engine.device)[draws[..., 2] % 3]
        return Turns(
            images, labels, noise, random.fold(keys[:, None, None], places), rivals, losses
        )

    def mix(
        self,
        context: Context,
        engine: Engine,
        state: Cell,
        real: Batch,
        present: Tensor,
        table: Tensor,
        keys: Tensor,
    ) -> Cell:
        """One step of every mixture's weights; only features travel."""
        every = torch.arange(self.mixture_samples, device=engine.device) % real.labels[0].numel()
        images = engine.map(
            Partial(self._draw_images, context),
            state.sides.generators,
            real.labels.flatten(1)[:, every],
            keys,
        )
        known = to_unit(real.images.flatten(1, 2)[:, : self.mixture_samples])
        seen = context.features(torch.cat([images, known], 1).flatten(0, 1)).unflatten(
            0, (len(images), -1)
        )
        features, truth = seen[:, : self.mixture_samples], seen[:, self.mixture_samples :]
        weights, distance = engine.map(
            self._improve, state.weights, present, engine.take(features, table), truth, keys
        )
        return state._replace(weights=weights, distance=distance)

    def _draw_images(self, context: Context, generators, labels: Tensor, key: Tensor) -> Tensor:
        """By the centre, with labels as the real images have them."""
        centre = trees.row(generators, 0)
        noise = random.normal(
            random.fold(key, 7), (self.mixture_samples, context.gan.networks.latent)
        )
        return context.gan.generate(
            Pair(centre.player, centre.player, centre.average), noise, labels
        )

    def _improve(
        self, weights: Tensor, present: Tensor, features: Tensor, truth: Tensor, key: Tensor
    ):
        noise = random.normal(random.fold(key, 9), weights.shape)
        return mixture.improve(
            weights, present, noise, self.mixture_mutation, mixture.kernels(features, truth)
        )

    # The model

    def best(self, state: Cell) -> int:
        """The cell whose neighbourhood's mixture is closest to the data."""
        return int(torch.where(state.alive, state.distance, torch.inf).argmin())

    def generate(self, context: Context, state: Cell, noise: Tensor, labels: Tensor) -> Tensor:
        return self.generate_from(context, state, self.best(state), noise, labels)

    def generate_from(
        self, context: Context, state: Cell, cell: int, noise: Tensor, labels: Tensor
    ) -> Tensor:
        """Images by a cell's mixture."""
        slots = mixture.draw(state.weights[cell], noise)
        images = noise.new_empty(len(noise), *context.gan.shape)
        for slot in torch.unique(slots).tolist():
            mine = slots == slot
            centre = trees.map(
                lambda leaf, i=int(state.around[cell, slot]): leaf[i, 0], state.sides.generators
            )
            pair = Pair(centre.player, centre.player, centre.average)
            images[mine] = context.gan.generate(pair, noise[mine], labels[mine])
        return images

    def mixtures(self, state: Cell) -> list[Mixture]:
        best, found = self.best(state), []
        for cell in range(len(state.weights)):
            weights: dict[int, float] = {}
            slots = zip(state.around[cell].tolist(), state.weights[cell].tolist(), strict=True)
            for other, weight in slots:  # empty slots hold the cell itself, with weight 0
                weights[other] = weights.get(other, 0.0) + weight
            row, column = divmod(cell, self.width)
            alive, distance = bool(state.alive[cell]), float(state.distance[cell])
            found.append(Mixture(cell, row, column, weights, distance, alive, cell == best))
        return found

    def choose_mixture(self, state: Cell, cell: int) -> Cell:
        distance = torch.full_like(state.distance, torch.inf)
        distance[cell] = 0.0
        return state._replace(distance=distance)

    def evolve_mixtures(
        self,
        context: Context,
        state: Cell,
        draw_real: Callable[[int], Batch],
        t: int,
        steps: int,
    ) -> tuple[list[float], Cell]:
        real = draw_real(-(-self.mixture_samples // self.batch_size))
        features, truth = self.compare(context, state, real, t)
        present = self.links(context, len(features), t).present.to(features.device)
        before, after, weights = [], [], []
        for cell, own in enumerate(state.weights):
            means = mixture.kernels(features[state.around[cell]], truth[cell])
            distance = mixture.distance(own, means)
            before.append(float(distance))
            key = torch.tensor(random.key(context.seed, "mixture", t, cell), device=own.device)
            for step in range(steps):
                noise = random.normal(random.fold(key, step), own.shape)
                own, distance = mixture.improve(
                    own, present[cell], noise, self.mixture_mutation, means
                )
            weights.append(own)
            after.append(distance)
        return before, state._replace(weights=torch.stack(weights), distance=torch.stack(after))

    def compare(self, context: Context, state: Cell, real: Batch, t: int) -> tuple[Tensor, Tensor]:
        """Return features (cells, n, d) of samples of every cell's own generator and of real images."""
        num = self.mixture_samples
        images, labels = (leaf.flatten(1, 2)[:, :num] for leaf in real)
        only_own = torch.zeros_like(state.weights)
        only_own[:, 0] = 1.0
        features = []
        for cell in range(len(state.weights)):
            key = torch.tensor(
                random.key(context.seed, "mixture-samples", t, cell), device=only_own.device
            )
            noise = random.normal(key, (num, context.gan.networks.latent))
            samples = self.generate_from(
                context, state._replace(weights=only_own), cell, noise, labels[cell]
            )
            features.append(context.features(samples))
        truth = context.features(to_unit(images.flatten(0, 1))).unflatten(0, images.shape[:2])
        return torch.stack(features), truth
