"""Define the settings of cellular training: its grid, and the amount of work in a round."""

from abc import ABC
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

from torch import Tensor

from remuda.errors import UserError
from remuda.gan.contest import Drawing
from remuda.population.topology import neighbourhoods
from remuda.strategies.base import Strategy
from remuda.strategies.context import Context


@dataclass(frozen=True, kw_only=True)
class CellularSettings(Strategy, ABC):
    """The settings of cellular training, and what follows from them before any training.

    The defaults are those of table I of the paper, except for the grid and for
    ``skip_discriminator``, which is 1 in the paper.
    """

    height: int = 2  # rows of the grid, >= 1
    width: int = 2  # columns, >= 1
    # von-neumann: five cells, as in the paper; moore: nine; ring: the two cells with adjacent ids.
    neighbourhood: Literal["von-neumann", "moore", "ring", "none"] = "von-neumann"
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

    partitions: ClassVar[tuple[str, ...]] = ("all", "subset", "iid", "class", "dirichlet")

    def __post_init__(self) -> None:
        super().__post_init__()
        bounds = dict.fromkeys(("height", "width", "population", "tournament_size"), 1)
        bounds |= dict.fromkeys(("skip_discriminator", "lr_mutation"), 0)
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

    def check(self, context: Context) -> None:
        super().check(context)
        context.gan.stacked_losses.require(
            "cellular strategies evaluate all pairs of a neighbourhood with vmap, so change this "
            "operation or choose another strategy",
        )

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
