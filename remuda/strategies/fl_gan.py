"""FL-GAN: federated averaging of pairs, the rival of MD-GAN.

C. Hardy, E. Le Merrer, B. Sericola, "MD-GAN: Multi-Discriminator Generative Adversarial Networks for Distributed
Datasets", IPDPS 2019, section III-c, after McMahan et al., "Federated learning of deep networks using model
averaging", 2016.

    worker            E local epochs of its own pair on its own data
    worker -> server  G_n, D_n
    server            the mean of all G_n and of all D_n, weighted by the sizes of their data
    server -> worker  the means, from which all go on

A round is E local epochs and one averaging.
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
from remuda.networks.layers import BatchNorm2d
from remuda.strategies.base import Context, Metrics, Strategy, TrafficPlan
from remuda.strategies.md_gan import WORKERS
from remuda.tensors import random, trees
from remuda.tensors.trees import Tree


@dataclass(frozen=True, kw_only=True)
class FLGAN(Strategy):
    epochs: int = 1  # E in the paper: local passes over the data between two averagings, >= 1
    fraction: float = (
        1.0  # of the members that take part in a round, drawn anew for each, 0 < fraction <= 1
    )
    sync: Literal["both", "generator", "discriminator"] = (
        "both"  # what is averaged; the rest stays local
    )
    sync_optimizer: Literal["keep", "average", "reset"] = (
        "keep"  # Adam's moments of what is averaged
    )
    local_norms: bool = False  # FedBN: normalisation layers stay local

    on_failure: ClassVar[Literal["drop", "move"]] = "drop"  # data never leave their members
    partitions: ClassVar[tuple[str, ...]] = ("iid", "class", "dirichlet", "subset")

    def __post_init__(self):
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
        """All begin with the same weights."""
        first = context.gan.init(random.key(context.seed, "init", 0))
        return engine.create(lambda member: self.alike(context, member, first))

    def round(
        self, context: Context, engine: Engine, state: Pair, real: Batch, t: int
    ) -> tuple[Pair, Metrics]:
        trained, losses = self.train_pairs(context, engine, state, real, t)
        weights = self.weights(context, engine.size, t)
        if self.fraction < 1:  # who does not take part stays as it was
            active = (weights > 0)[list(engine.members)].to(engine.device)
            trained = engine.map(_if_active, active, trained, state)
        generator, discriminator, average = trained
        if self.sync != "discriminator":
            generator = self.average(engine, generator, weights, context.gan.generator)
            average = self._mean_but(
                engine, average, self.local_names(context.gan.generator), weights
            )
        if self.sync != "generator":
            discriminator = self.average(engine, discriminator, weights, context.gan.discriminator)
        return Pair(generator, discriminator, average), losses

    def weights(self, context: Context, size: int, t: int) -> Tensor:
        """What each member counts in round t: the size of its data if it takes part, otherwise nothing."""
        sizes = torch.tensor(context.shares or [1] * size, dtype=torch.float64)
        num_active = max(1, round(self.fraction * size))
        active = random.permutation(torch.tensor(random.key(context.seed, "active", t)), size)[
            :num_active
        ]
        weights = torch.zeros(size, dtype=torch.float64)
        weights[active] = sizes[active]
        return weights

    def average(
        self, engine: Engine, player: Player, weights: Tensor, network: nn.Module
    ) -> Player:
        """The mean of a player's tensors, but for those that stay local."""
        local = self.local_names(network)
        params, buffers = (
            self._mean_but(engine, tree, local, weights) for tree in (player.params, player.buffers)
        )
        moments = player.moments
        if self.sync_optimizer == "average":
            first, second = (
                self._mean_but(engine, tree, local, weights)
                for tree in (moments.first, moments.second)
            )
            moments = Moments(first, second, engine.mean(moments.steps, weights))
        elif (
            self.sync_optimizer == "reset"
        ):  # also of what stays local: the count of updates is one for all
            moments = trees.map(torch.zeros_like, moments)
        return Player(params, buffers, moments)

    def local_names(self, network: nn.Module) -> set[str]:
        """What is not averaged: singular vectors, whose signs are a matter of chance, and FedBN's layers."""
        return vector_names(network) | (norm_names(network) if self.local_norms else set())

    def _mean_but(
        self, engine: Engine, tensors: dict[str, Tensor], local: set[str], weights: Tensor
    ) -> Tree:
        shared = {name: tensor for name, tensor in tensors.items() if name not in local}
        mean = engine.mean(shared, weights) if shared else {}
        return {name: mean.get(name, tensor) for name, tensor in tensors.items()}

    def resize(self, state: Pair, size: int) -> Pair:
        """Who comes late begins with a copy of another's pair."""
        return trees.resize(state, size)

    def generate(self, context: Context, state: Pair, noise: Tensor, labels: Tensor) -> Tensor:
        """By the server's generator: the mean of all. Where generators are not averaged, by each in turn."""
        num_members = trees.leaves(state)[0].shape[0]
        if self.sync != "discriminator":
            return context.gan.generate(trees.map(_mean_row, state), noise, labels)
        images = noise.new_empty(len(noise), *context.gan.shape)
        for member in range(num_members):
            mine = torch.arange(len(noise), device=noise.device) % num_members == member
            images[mine] = context.gan.generate(trees.row(state, member), noise[mine], labels[mine])
        return images


def norm_names(network: nn.Module) -> set[str]:
    """Parameters and buffers of normalisation layers."""
    norms = [name for name, module in network.named_modules() if isinstance(module, BatchNorm2d)]
    tensors = [name for name, _ in (*network.named_parameters(), *network.named_buffers())]
    return {tensor for tensor in tensors if any(tensor.startswith(f"{norm}.") for norm in norms)}


def _if_active(active: Tensor, new: Tree, old: Tree) -> Tree:
    return trees.map(lambda a, b: torch.where(active, a, b), new, old)


def _mean_row(leaf: Tensor) -> Tensor:
    return leaf.double().mean(0).to(leaf.dtype) if leaf.is_floating_point() else leaf[0]
