"""FL-GAN: federated averaging of pairs, the baseline in the MD-GAN paper.

C. Hardy, E. Le Merrer, B. Sericola, "MD-GAN: Multi-Discriminator Generative Adversarial Networks
for Distributed Datasets", IPDPS 2019, section III-c, based on McMahan et al., "Federated learning
of deep networks using model averaging", 2016.

    worker            trains its own pair on its own data for E local epochs
    worker -> server  G_n, D_n
    server            averages all G_n and all D_n, weighted by the workers' numbers of images
    server -> worker  the two means, which replace every G_n and D_n

A round consists of E local epochs and one averaging.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from remuda.data.batches import Batch
from remuda.engines.base import Engine
from remuda.errors import UserError
from remuda.gan import Pair, Player
from remuda.gan.lipschitz import vector_names
from remuda.gan.optimizers import Moments
from remuda.gan.parts import Names, names_in, split_dict
from remuda.strategies.base import Strategy
from remuda.strategies.context import Context, Metrics
from remuda.strategies.facts import TrafficPlan
from remuda.strategies.md_gan import WORKERS
from remuda.tensors import random, trees
from remuda.tensors.trees import Tree


@dataclass(frozen=True, kw_only=True)
class FLGAN(Strategy):
    """Federated averaging; the state has one pair per worker."""

    epochs: int = 1  # E in the paper: local passes over the data between two averagings, >= 1
    # Fraction of the members that is active, drawn again in each round, 0 < fraction <= 1.
    fraction: float = 1.0
    sync: Literal["both", "generator", "discriminator"] = "both"  # what is averaged
    # What happens to the Adam moments of the averaged networks.
    sync_optimizer: Literal["keep", "average", "reset"] = "keep"
    local_norms: bool = False  # FedBN: normalisation layers stay local

    on_failure: ClassVar[Literal["drop", "move"]] = "drop"  # data never leave their members
    partitions: ClassVar[tuple[str, ...]] = ("iid", "class", "dirichlet", "subset")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs < 1:
            raise UserError(f"strategy.epochs must be at least 1, not {self.epochs}")
        if not 0 < self.fraction <= 1:
            raise UserError(f"strategy.fraction must be above 0 and at most 1, not {self.fraction}")

    def check(self, context: Context) -> None:
        super().check(context)
        gan = context.gan
        if self.local_norms and not (norm_names(gan.generator) | norm_names(gan.discriminator)):
            raise UserError("strategy.local_norms needs networks with BatchNorm: leave it at false")

    def num_members(self, requested: int, num_classes: int) -> int:
        return requested or WORKERS

    def batches_per_round(self, images_per_member: float) -> int:
        return self.epochs * super().batches_per_round(images_per_member)

    def traffic_plan(self, num_workers: int) -> TrafficPlan:
        return TrafficPlan(epochs=self.epochs, epochs_per_round=self.epochs)

    def init(self, context: Context, engine: Engine) -> Pair:
        """Return pairs with the same weights for all members."""
        first = self.first_pair(context)
        return engine.create(lambda member: self.copy_pair(context, first, member))

    def round(
        self, context: Context, engine: Engine, state: Pair, real: Batch, t: int
    ) -> tuple[Pair, Metrics]:
        trained, losses = self.train_pairs(context, engine, state, real, t)
        weights = self.weights(context, engine.size, t)
        if self.fraction < 1:  # inactive members are trained, then restored
            active = (weights > 0)[list(engine.members)].to(engine.device)
            trained = engine.map(_if_active, active, trained, state)
        generator, discriminator, average = trained
        gan = context.gan
        if self.sync != "discriminator":
            generator = self.average(engine, generator, weights, gan.generator)
            average = _mean_except(engine, average, self.local_names(gan.generator), weights)
        if self.sync != "generator":
            discriminator = self.average(engine, discriminator, weights, gan.discriminator)
        return Pair(generator, discriminator, average), losses

    def weights(self, context: Context, size: int, t: int) -> Tensor:
        """Return each member's weight in round t: its number of images, or 0 if inactive."""
        sizes = torch.tensor(context.shares or [1] * size, dtype=torch.float64)
        num_active = max(1, round(self.fraction * size))
        order = random.permutation(torch.tensor(random.key(context.seed, "active", t)), size)
        active = order[:num_active]
        weights = torch.zeros(size, dtype=torch.float64)
        weights[active] = sizes[active]
        return weights

    def average(
        self, engine: Engine, player: Player, weights: Tensor, network: nn.Module
    ) -> Player:
        """Average a player's tensors over all members, except those that stay local."""
        local = self.local_names(network)
        params = _mean_except(engine, player.params, local, weights)
        buffers = _mean_except(engine, player.buffers, local, weights)
        moments = player.moments
        if self.sync_optimizer == "average":
            first = _mean_except(engine, moments.first, local, weights)
            second = _mean_except(engine, moments.second, local, weights)
            moments = Moments(first, second, engine.mean(moments.steps, weights))
        elif self.sync_optimizer == "reset":
            # Reset the moments of local tensors too: all tensors share one count of updates.
            moments = trees.map(torch.zeros_like, moments)
        return Player(params, buffers, moments)

    def local_names(self, network: nn.Module) -> set[str]:
        """Return the names of the tensors that are not averaged.

        Singular vectors stay local because their signs are arbitrary. With FedBN, normalisation
        layers stay local too.
        """
        local = vector_names(name for name, _ in network.named_buffers())
        if self.local_norms:
            local |= norm_names(network)
        return local

    def resize(self, old_size: int, size: int) -> list[int | None]:
        """Give each new member a copy of another member's pair."""
        return [member % old_size for member in range(size)]

    def authors(self, engine: Engine, state: Pair, noise: Tensor, labels: Tensor) -> Tensor:
        """Let the members take turns; if generators are averaged, all images come from the mean."""
        if self.sync != "discriminator":
            return torch.zeros_like(labels)
        return torch.arange(len(labels), device=labels.device) % engine.size

    def generators(self, engine: Engine, state: Pair) -> Pair:
        """Return the server's generator, the mean of all members' generators, if it has one.

        Tensors that stay local are averaged here as well, except singular vectors.
        """
        if self.sync == "discriminator":
            return state
        generator, _, average = state
        used = generator.params, generator.buffers, average
        means = engine.mean(used, torch.ones(engine.size))
        params, buffers, average = (
            mean | {name: own[name] for name in vector_names(own)}
            for own, mean in zip(used, means, strict=True)
        )
        generator = generator._replace(params=params, buffers=buffers)
        return state._replace(generator=generator, average=average)


def norm_names(network: nn.Module) -> Names:
    """Return the names of all parameters and buffers in normalisation layers."""
    return names_in(network, ["normalisation"])


def _mean_except(
    engine: Engine, tensors: dict[str, Tensor], local: set[str], weights: Tensor
) -> dict[str, Tensor]:
    """Replace all tensors except the local ones with their weighted means over the members."""
    own, shared = split_dict(tensors, frozenset(local))
    return own | engine.mean(shared, weights)


def _if_active(active: Tensor, new: Tree, old: Tree) -> Tree:
    return trees.map(lambda a, b: torch.where(active, a, b), new, old)
