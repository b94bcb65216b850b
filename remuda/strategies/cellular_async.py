"""Asynchronous cellular training: a cell never waits for its neighbours.

The method of cellular.py (E. Perez, S. Nesmachnow, J. Toutouh, E. Hemberg, U. O'Reilly,
"Parallel/distributed implementation of cellular training for generative adversarial neural
networks", 2020) without its barrier at the end of an iteration.

    cell                  one iteration as in cellular.py, with the latest centres that have arrived
                          sample from the new centre and from the neighbours' centres;
                          mutate the weights of their mixture;
                          keep them if the mixture moves closer to the data
    cell -> neighbours    its new centre, whenever it is ready

An iteration of one cell is a *turn*. A round ends when as many turns have ended as there are cells:
fast cells make more of them than slow ones. Turns cross the ends of rounds.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from remuda.data.batches import Batch
from remuda.engines import racing
from remuda.engines.base import Engine
from remuda.engines.racing import Board, Race, Runners
from remuda.gan import Pair
from remuda.gan.contest import Generator, Sides
from remuda.strategies.asynchronous import Asynchronous, Real, mean_losses
from remuda.strategies.cellular import Cell, Cellular
from remuda.strategies.cellular_settings import CellularSettings
from remuda.strategies.context import Context, Metrics, Report
from remuda.strategies.facts import Mixture
from remuda.strategies.routing import Routing
from remuda.tensors import random, trees
from remuda.tensors.functions import Partial

LOSSES = ("discriminator_loss", "generator_loss")


class State(NamedTuple):
    """The cells, including everything that is in flight; every leaf has one row per cell."""

    runners: Runners  # their rows are Cells, their mail the centres of their neighbourhoods
    losses: dict[str, Tensor]  # means over the last round in which a turn of the cell ended


@dataclass(frozen=True, kw_only=True)
class AsyncCellular(Asynchronous, CellularSettings):
    """Asynchronous cellular training. A round has one turn per cell, on average."""

    # Engines recognise a compiled step by the strategy that it belongs to, so keep one object.
    @cached_property
    def paper(self) -> Cellular:
        """The synchronous strategy with the same settings."""
        names = {part.name for part in fields(self)} & {part.name for part in fields(Cellular)}
        return Cellular(**{name: getattr(self, name) for name in names})

    # The method

    def init(self, context: Context, engine: Engine) -> State:
        """Return the first state: every cell begins its first turn with all initial centres."""
        cells = self.paper.init(context, engine)
        # Unknown until the cell's first turn ends, so the model does not use this mixture.
        cells = cells._replace(distance=torch.full_like(cells.distance, torch.inf))
        table = self.exchange_table(engine.size, context.seed)
        race = racing.start(
            (),
            cells,
            engine.take(cells.centres(), table),
            torch.tensor(list(engine.members), device=engine.device),
            self.pace(context),
            size=engine.size,
            num_busy=engine.size,
            num_neighbours=table.shape[1],
        )
        losses = {name: torch.zeros(len(engine.members), device=engine.device) for name in LOSSES}
        return State(race.members, losses)

    def round(
        self, context: Context, engine: Engine, state: State, real: Real, t: int
    ) -> tuple[State, Metrics]:
        before, losses = state
        board = Board(post=Cell.centres, table=self.exchange_table(engine.size, context.seed))
        turn = Partial(Partial(self.turn, context), real._replace(first=engine.members[0]))
        raced = engine.race(turn, board, Race((), before), engine.size, self.pace(context))
        runners = raced.state.members
        turned, losses = mean_losses(raced, before, losses)
        metrics = losses | turned | runners.rows.metrics()
        # Like its losses, the distance of a cell without a complete turn is reported as 0.
        distance = metrics["mixture_distance"]
        metrics["mixture_distance"] = torch.where(runners.turns > 0, distance, 0.0)
        return State(runners, losses), Report(metrics, runners.rows.facts())

    def turn(
        self, context: Context, real: Real, engine: Engine, cell: Cell, centres: Sides, n: int
    ) -> tuple[Cell, tuple[()], Metrics]:
        """Run turn n of the only cell of this engine: iteration n + 1 of cellular.py.

        A turn depends on nothing but the cell, the centres and n, so a recorded order of turns can
        be repeated exactly. Therefore schedules follow the cell's own turns instead of the rounds.
        """
        batch, t = real.of_turn(engine.members[0], n), n + 1
        there = torch.ones_like(cell.around, dtype=torch.bool)
        sides, results = self.paper.iterate(context, engine, cell.sides, centres, there, batch, t)
        # Not the fitness: it would be unknown for a cell without a turn in the round.
        losses = {name: results[name] for name in LOSSES}
        generators = _with_own(sides.generators, centres.generators)
        # Each generator has the key of its cell, so that no two of them share their noise.
        around = cell.around[0].tolist()
        keys = random.keys(context.seed, "cells", around, t, device=engine.device)
        weights, distance = self.paper.search.step_without_exchange(
            context, engine, generators, cell.weights, batch, keys[None]
        )
        return cell._replace(sides=sides, weights=weights, distance=distance), (), losses

    # The model: the best neighbourhood's mixture, as in cellular.py

    def authors(self, engine: Engine, state: State, noise: Tensor, labels: Tensor) -> Tensor:
        return self.paper.authors(engine, state.runners.rows, noise, labels)

    def routing(self, context: Context, engine: Engine, state: State) -> Routing:
        return self.paper.routing(context, engine, state.runners.rows)

    def generators(self, engine: Engine, state: State) -> Pair:
        return self.paper.generators(engine, state.runners.rows)

    def mixtures(self, state: State) -> list[Mixture]:
        return self.paper.mixtures(state.runners.rows)

    def choose_mixture(self, state: State, cell: int) -> State:
        return _with_cells(state, self.paper.choose_mixture(state.runners.rows, cell))

    def evolve_mixtures(
        self, context: Context, state: State, draw_real: Callable[[int], Batch], t: int, steps: int
    ) -> tuple[list[float], State]:
        cells = state.runners.rows
        before, cells = self.paper.evolve_mixtures(context, cells, draw_real, t, steps)
        return before, _with_cells(state, cells)


def _with_own(own: Generator, centres: Generator) -> Generator:
    """Replace the first of the centres (cells, s, ...) by the first of the own generators."""
    return trees.map(lambda mine, rest: torch.cat([mine[:, :1], rest[:, 1:]], 1), own, centres)


def _with_cells(state: State, cells: Cell) -> State:
    return state._replace(runners=state.runners._replace(rows=cells))
