"""Define strategies: their settings, and pure functions that turn a state into the next."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from remuda.data.batches import Batch, Batches
from remuda.engines.base import Engine
from remuda.errors import UserError
from remuda.gan import GAN, Pair
from remuda.gan.sampling import sample_rows
from remuda.networks import Networks
from remuda.population import derangement
from remuda.strategies.context import Context, FeatureExtractor, Metrics, pixels
from remuda.strategies.facts import Averaging, Mixture, TrafficPlan
from remuda.strategies.pairs import PairTraining
from remuda.strategies.routing import Routing, by_label
from remuda.system.text import Notify
from remuda.tensors import random
from remuda.tensors.trees import Tree


@dataclass(frozen=True, kw_only=True)
class Strategy(PairTraining, ABC):
    """The method of one paper: its settings, and pure functions of states.

    ``prepare`` returns the context that most other methods take. A training loop calls only
    ``init`` and ``round``. A strategy stores nothing between rounds. Rounds count from 1.
    """

    # If the host of some members fails, continue without them (drop) or move them to other ranks.
    on_failure: ClassVar[Literal["drop", "move"]] = "move"
    is_asynchronous: ClassVar[bool] = False  # whether rounds are races, in which nobody waits
    # Metrics that may be infinite or NaN although training has not diverged.
    may_be_undefined: ClassVar[frozenset[str]] = frozenset()
    # The server's tensors with axes of the population's size; they are 0 after it has changed.
    server_tables: ClassVar[frozenset[str]] = frozenset()
    # Data partitions that suit the method; data.partition = "auto" selects the first one.
    partitions: ClassVar[tuple[str, ...]]
    # Speed-ups that the paper reports. Each population size maps to (cores, speed-up).
    paper_speedups: ClassVar[dict[str, tuple[int, float]]] = {}

    def prepare(
        self,
        networks: Networks,
        shape: tuple[int, ...],
        num_classes: int,
        seed: int,
        shares: Sequence[int] = (),
        features: FeatureExtractor | None = None,
        class_counts: Sequence[Sequence[int]] = (),
        lost: Sequence[int] = (),
    ) -> Context:
        """Return the context for these networks, images of this shape, and this seed.

        ``shares`` holds the number of images of each member. ``features`` maps images to the
        features that are used to compare them. The default features are the pixels.
        ``class_counts`` holds the number of images of each member and class. ``lost`` holds the ids
        of members that were lost.
        """
        context = Context(
            gan=self.build_gan(networks, shape, num_classes),
            seed=seed,
            shares=tuple(shares),
            features=pixels if features is None else features,
            class_counts=tuple(map(tuple, class_counts)),
            lost=tuple(lost),
        )
        self.check(context)
        return context

    def check(self, context: Context) -> None:
        """Raise a UserError if the settings do not suit the networks or the images."""
        if (self.shift or self.cutout or self.colour) and context.gan.shape[1:] == (1, 1):
            raise UserError(
                "strategy.shift, strategy.cutout and strategy.colour are for images, not for "
                "points: leave them at 0"
            )
        if self.annealing != "none" and not self.annealing_rounds:
            raise UserError(
                "strategy.annealing_rounds must be above 0: set it, or call for_rounds with the "
                "number of rounds of the run"
            )
        for name in ("penalty_every", "final_penalty"):
            if getattr(self, name) != 1 and not context.gan.objective.has_penalties:
                raise UserError(
                    f"strategy.{name} has no effect, because the discriminator has no penalty: "
                    "leave it at 1, or set strategy.r1"
                )

    # The method of the paper

    def draw(self, batches: Batches, t: int, num_batches: int) -> Any:
        """Return the real data that ``round`` receives in round t."""
        return batches.draw((t - 1) * num_batches, num_batches)

    @abstractmethod
    def init(self, context: Context, engine: Engine) -> Any:
        """Return the state before the first round."""

    @abstractmethod
    def round(
        self, context: Context, engine: Engine, state: Any, real: Any, t: int
    ) -> tuple[Any, Metrics]:
        """Run round t and return the new state and the metrics of every member.

        ``real`` is what ``draw`` returns. A ``Report`` also contains facts that are not metrics.
        """

    # The model. Every process calls these methods with the same noise and labels.

    @abstractmethod
    def authors(self, engine: Engine, state: Any, noise: Tensor, labels: Tensor) -> Tensor:
        """Return, for each image, the position of the member that generates it, (n,)."""

    def generators(self, engine: Engine, state: Any) -> Pair:
        """Return the pairs that generate images; row i belongs to ``engine.members[i]``.

        Only rows of authors are used.
        """
        return state

    def generate(
        self, context: Context, engine: Engine, state: Any, noise: Tensor, labels: Tensor
    ) -> Tensor:
        """Return images (n, C, H, W) in [-1, 1]. The engine must host all members."""
        authors = self.authors(engine, state, noise, labels)
        return sample_rows(context.gan, self.generators(engine, state), authors, noise, labels)

    def routing(self, context: Context, engine: Engine, state: Any) -> Routing:
        """Describe how ``authors`` chooses members; the engine must host all of them.

        Override this if the choice depends on the noise or on an image's position.
        """
        num_labels = self.num_labels(context.gan, engine.size)

        def authors(noise: Tensor, labels: Tensor) -> Tensor:
            return self.authors(engine, state, noise, labels)

        return by_label(authors, context.gan.networks.latent, num_labels, type(self).__name__)

    # The size of the population

    @property
    def grid(self) -> tuple[int, int] | None:
        """The rows and columns of the torus of members; None if the strategy has no torus."""
        return None

    @property
    def needs_features(self) -> bool:
        """Whether images are compared with a network's features instead of their pixels."""
        return False

    @property
    def needs_class_counts(self) -> bool:
        """Whether ``context.class_counts`` must contain the members' numbers of images by class."""
        return False

    def for_classes(
        self, names: Sequence[str], distances: Callable[[], np.ndarray], notify: Notify
    ) -> Self:
        """Return the settings of a run whose members train these classes.

        ``distances()`` compares the features of the classes, (classes, classes). It may take long,
        so call it only if needed.
        """
        return self

    @abstractmethod
    def num_members(self, requested: int, num_classes: int) -> int:
        """Return the number of members to train. A request of 0 selects the default.

        Raise a UserError if the strategy cannot train this many members.
        """

    def share_groups(self, num_members: int, requested: int) -> list[range]:
        """Return the numbers of the shares of the data that each member uses.

        ``num_members`` includes lost members, and ``requested`` is ``run.members``. If a member has
        several shares, ``draw`` must choose one of them.
        """
        return [range(member, member + 1) for member in range(num_members)]

    def num_labels(self, gan: GAN, num_members: int) -> int:
        """Return how many labels the trained model accepts; 0 if it is unconditional."""
        return gan.num_classes if gan.networks.conditional else 0

    def grow(self, times: int, members: int) -> tuple[Self, int]:
        """Return the strategy and ``run.members`` of a population that is ``times`` times as large.

        If ``run.members`` is 0, the population has ``times`` members.
        """
        return self, times * max(1, members)

    def shrink(self, size: int, requested: int) -> tuple[Self, int]:
        """Return the strategy and ``run.members`` after failures that left ``size`` members.

        Before the failures, ``run.members`` was ``requested``.
        """
        return self, size

    def rows(self, state: Any) -> Tree:
        """Return the part of the state that has one row per member.

        The rest belongs to the server, or it is the same in every process.
        """
        return state

    def with_rows(self, state: Any, rows: Tree) -> Any:
        """Return the state with its rows replaced by ``rows``."""
        return rows

    def resize(self, old_size: int, size: int) -> list[int | None]:
        """Return the old row that each of ``size`` members starts with; None: that of ``init``.

        Raise a UserError if the strategy cannot change the size of the population.
        """
        raise UserError(
            f"this strategy cannot continue with {size} members: leave run.members as it was"
        )

    # Amounts of work and traffic

    def batches_per_round(self, images_per_member: float) -> int:
        """Return the number of batches of real data that a member uses in a round."""
        steps = self.steps_per_round
        if steps == 0:
            steps = -(-images_per_member // (self.batch_size * self.discriminator_steps))
        return self.batches_for(int(steps))

    def steps_in(self, num_batches: int) -> int:
        """Return the number of generator updates that use this many batches of real data."""
        return num_batches // self.discriminator_steps

    def batches_for(self, steps: int) -> int:
        """Return the number of batches of real data that this many generator updates need."""
        return steps * self.discriminator_steps

    def exchange_table(self, size: int, seed: int) -> Tensor:
        """Return a table (size, K) of the members whose rows each member takes in an exchange."""
        everyone = torch.ones(size, dtype=torch.bool)
        return derangement(random.key(seed, "swap", 1), everyone)[:, None]

    def traffic_plan(self, num_workers: int) -> TrafficPlan:
        """Return the settings that decide how much MD-GAN and FL-GAN would send."""
        return TrafficPlan()

    def averaging(self, context: Context, every: int | None = None) -> Averaging | None:
        """Return how much members average, or None if they cannot share tensors.

        With ``every`` = k, return how much they would average after every k updates; 0 means never.
        """
        return None

    # Mixtures of generators, for strategies that have them

    def mixtures(self, state: Any) -> list[Mixture]:
        """Return the mixtures of all cells, sorted by cell id."""
        raise _no_mixtures()

    def choose_mixture(self, state: Any, cell: int) -> Any:
        """Return the state, changed so that the model samples from this cell's mixture."""
        raise _no_mixtures()

    def evolve_mixtures(
        self, context: Context, state: Any, draw_real: Callable[[int], Batch], t: int, steps: int
    ) -> tuple[list[float], Any]:
        """Evolve the mixtures for ``steps`` steps after round t, on fresh samples.

        ``draw_real(n)`` returns n batches of real data for every cell. Return each mixture's
        distance from the real images before the first step, and the state after the last step.
        """
        raise _no_mixtures()


def _no_mixtures() -> UserError:
    return UserError(
        "only runs of the strategies cellular and cellular-async have mixtures: train one, for "
        "instance cellular-digits"
    )
