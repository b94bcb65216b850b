"""FL-GAN: federated averaging of pairs, the baseline in the MD-GAN paper.

C. Hardy, E. Le Merrer, B. Sericola, "MD-GAN: Multi-Discriminator Generative Adversarial Networks
for Distributed Datasets", IPDPS 2019, section III-c, based on McMahan et al., "Federated learning
of deep networks using model averaging", 2016.

    worker            trains its own pair on its own data for E local epochs
    worker -> server  G_n, D_n
    server            averages all G_n and all D_n, weighted by the workers' numbers of images
    server -> worker  the two means, which replace every G_n and D_n

A round consists of E local epochs and one averaging. The weights in both messages can be
compressed.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from remuda.data.batches import Batch
from remuda.engines.base import Engine
from remuda.errors import UserError
from remuda.gan import Pair, Player
from remuda.gan.lipschitz import vector_names
from remuda.gan.parts import Names, names_in
from remuda.population.aggregates import AGGREGATES
from remuda.population.distances import class_distances
from remuda.population.lies import lie_keys
from remuda.population.relay import through_server
from remuda.strategies.compression import Compressing
from remuda.strategies.context import Context, Metrics
from remuda.strategies.distrust import Distrust
from remuda.strategies.facts import TrafficPlan
from remuda.strategies.fl_gan_messages import Message, join, split
from remuda.strategies.md_gan_visits import WORKERS
from remuda.strategies.routing import Routing
from remuda.tensors import random, trees
from remuda.tensors.trees import Tree


class State(NamedTuple):
    """The pairs of all workers; every leaf has one row per worker."""

    generator: Player
    discriminator: Player
    average: dict[str, Tensor]
    memory: Tree = ()  # what compression removed from the last message to the server

    @property
    def pairs(self) -> Pair:
        """The pairs without the memory."""
        return Pair(self.generator, self.discriminator, self.average)


@dataclass(frozen=True, kw_only=True)
class FLGAN(Distrust, Compressing):
    """Federated averaging; the state has one pair per worker."""

    epochs: int = 1  # E in the paper: local passes over the data between two averagings, >= 1
    # Fraction of the members that is active, drawn again in each round, 0 < fraction <= 1.
    fraction: float = 1.0
    sync: Literal["both", "generator", "discriminator"] = "both"  # what is averaged
    # What happens to the Adam moments of the averaged networks.
    sync_optimizer: Literal["keep", "average", "reset"] = "keep"
    local_norms: bool = False  # FedBN: normalisation layers stay local
    # How much a member counts in the mean: its number of images (sizes), 1 (equal), or its number
    # of images times exp(-KL divergence of its classes from those of all data) (distances).
    weights: Literal["sizes", "equal", "distances"] = "sizes"

    on_failure: ClassVar[Literal["drop", "move"]] = "drop"  # data never leave their members
    partitions: ClassVar[tuple[str, ...]] = ("iid", "class", "dirichlet", "subset")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs < 1:
            raise UserError(f"strategy.epochs must be at least 1, not {self.epochs}")
        if not 0 < self.fraction <= 1:
            raise UserError(f"strategy.fraction must be above 0 and at most 1, not {self.fraction}")
        self.refuse_coarse("compress_up")
        if self.aggregate == "reputation":
            raise UserError(
                "strategy.aggregate=reputation needs the server of md-gan, which learns over many "
                "iterations: set strategy.aggregate to another value, for instance median"
            )
        if self.aggregate != "mean" and not self.compress_down == self.compress_up == "none":
            raise UserError(
                f"strategy.aggregate={self.aggregate} combines uncompressed messages: leave "
                "strategy.compress_down and strategy.compress_up at none"
            )

    def check(self, context: Context) -> None:
        super().check(context)
        gan = context.gan
        if self.local_norms and not (norm_names(gan.generator) | norm_names(gan.discriminator)):
            raise UserError("strategy.local_norms needs networks with BatchNorm: leave it at false")
        if self.weights == "distances" and gan.num_classes < 2:
            raise UserError(
                "strategy.weights=distances compares the classes of the members' images, but these "
                "data have no labels of different classes: use sizes or equal"
            )

    @property
    def needs_class_counts(self) -> bool:
        return self.weights == "distances"

    def num_members(self, requested: int, num_classes: int) -> int:
        size = requested or WORKERS
        # Also name the fraction if all members are active: in a larger population, some may not be.
        remedy = "strategy.fraction=1.0" if self.fraction < 1 else ""
        self.check_liars(size, self.num_active(size), remedy=remedy)
        return size

    def num_active(self, size: int) -> int:
        """Return how many of the members are active in a round."""
        return max(1, round(self.fraction * size))

    def batches_per_round(self, images_per_member: float) -> int:
        return self.epochs * super().batches_per_round(images_per_member)

    def traffic_plan(self, num_workers: int) -> TrafficPlan:
        return TrafficPlan(
            epochs=self.epochs, epochs_per_round=self.epochs, down=self.down, up=self.up
        )

    def init(self, context: Context, engine: Engine) -> State:
        """Return pairs with the same weights for all members."""
        first = self.first_pair(context)
        pairs = engine.create(lambda member: self.copy_pair(context, first, member))
        generator, discriminator, average = pairs
        memory = self.new_memory(self.message(context, pairs).weights)
        return State(generator, discriminator, average, memory)

    def round(
        self, context: Context, engine: Engine, state: State, real: Batch, t: int
    ) -> tuple[State, Metrics]:
        pairs, real = state.pairs, self.with_false_labels(context, engine, real)
        trained, metrics = self.train_pairs(context, engine, pairs, real, t)
        weights = self.weigh(context, engine.size, t)
        if self.fraction < 1:  # inactive members are trained, then restored
            trained = engine.map(trees.where, self.active(engine, weights), trained, pairs)
        if self.falsifies:
            is_liar = self.liars_here(context, engine)
            trained = engine.map(self.without_free_rider, is_liar, trained, pairs)
        sent, before = (self.message(context, each) for each in (trained, pairs))
        if self.falsifies:
            sent = self.falsify_weights(context, engine, sent, before, t)
        if self.aggregate == "mean":
            received, memory = self.average(engine, sent, weights, state.memory)
        else:
            received, kept = self.combine(engine, sent, before, weights)
            memory, metrics = state.memory, metrics | {"kept": kept}
        return State(*self.receive(trained, received), memory), metrics

    def active(self, engine: Engine, weights: Tensor) -> Tensor:
        """Return which of the members hosted here are active."""
        return (weights > 0)[list(engine.members)].to(engine.device)

    def weigh(self, context: Context, size: int, t: int) -> Tensor:
        """Return each member's weight in round t: 0 if inactive, otherwise as ``weights`` says."""
        known = () if self.weights == "equal" else context.shares
        sizes = torch.tensor(known or [1] * size, dtype=torch.float64)
        if self.weights == "distances":
            sizes = sizes * torch.exp(-class_distances(context.class_counts))
        order = random.permutation(torch.tensor(random.key(context.seed, "active", t)), size)
        active = order[: self.num_active(size)]
        weights = torch.zeros(size, dtype=torch.float64)
        weights[active] = sizes[active]
        return weights

    # Messages between members and the server

    def message(self, context: Context, pairs: Pair) -> Message:
        """Return the tensors of all pairs that the server combines."""
        networks = {"generator": context.gan.generator, "discriminator": context.gan.discriminator}
        sent = networks if self.sync == "both" else {self.sync: networks[self.sync]}
        local = {name: frozenset(self.local_names(network)) for name, network in sent.items()}
        return split(pairs, local, has_moments=self.sync_optimizer == "average")

    def receive(self, pairs: Pair, message: Message) -> Pair:
        """Return the pairs with the tensors that the server has combined."""
        if self.sync_optimizer == "reset":
            # Reset the moments of local tensors too: all tensors share one count of updates.
            for name in message.rest.keys() - {"average"}:
                player = getattr(pairs, name)
                moments = trees.map(torch.zeros_like, player.moments)
                pairs = pairs._replace(**{name: player._replace(moments=moments)})
        return join(pairs, message)

    def falsify_weights(
        self, context: Context, engine: Engine, sent: Message, before: Message, t: int
    ) -> Message:
        """Return what members really send: liars falsify how their weights have changed."""
        new, old = (trees.flatten_rows(message.weights) for message in (sent, before))
        is_liar = self.liars_here(context, engine)
        keys = lie_keys(self.lie, context.seed, engine.members, t, engine.device)
        changes = engine.map(self.falsify, is_liar, keys, new - old)
        numbers = torch.where(is_liar[:, None], old + changes, new)  # honest members send all bits
        return sent._replace(weights=trees.unflatten_rows(sent.weights, numbers))

    def average(
        self, engine: Engine, sent: Message, weights: Tensor, memory: Tree
    ) -> tuple[Message, Tree]:
        """Return the means of what members send, and what compression has removed from it."""
        means, after = self.mean(engine, sent.weights, weights, memory)
        if self.error_feedback:  # nobody uses what inactive members send
            after = engine.map(trees.where, self.active(engine, weights), after, memory)
        return Message(means, engine.mean(sent.rest, weights)), after

    def combine(
        self, engine: Engine, sent: Message, before: Message, weights: Tensor
    ) -> tuple[Message, Tensor]:
        """Let the server aggregate changes; also return how much of each member's was used."""
        start = trees.flatten_rows(before)
        present = (weights > 0).to(engine.device)

        def aggregate(changes: Tensor) -> tuple[Tensor, Tensor]:
            change, kept = AGGREGATES[self.aggregate](changes, present, self.withstand)
            return change.expand_as(changes), kept

        change, kept = through_server(engine, aggregate, trees.flatten_rows(sent) - start)
        return trees.unflatten_rows(sent, start + change), kept

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

    def authors(self, engine: Engine, state: State, noise: Tensor, labels: Tensor) -> Tensor:
        """Let the members take turns; if generators are averaged, all images come from the mean."""
        if self.sync != "discriminator":
            return torch.zeros_like(labels)
        return torch.arange(len(labels), device=labels.device) % engine.size

    def routing(self, context: Context, engine: Engine, state: State) -> Routing:
        if self.sync != "discriminator":
            return super().routing(context, engine, state)
        return Routing("position", tuple(range(engine.size)))

    def generators(self, engine: Engine, state: State) -> Pair:
        """Return the server's generator, the mean of all members' generators, if it has one.

        Tensors that stay local are averaged here as well, except singular vectors.
        """
        if self.sync == "discriminator":
            return state.pairs
        generator, discriminator, average = state.pairs
        used = generator.params, generator.buffers, average
        means = engine.mean(used, torch.ones(engine.size))
        params, buffers, average = (
            mean | {name: own[name] for name in vector_names(own)}
            for own, mean in zip(used, means, strict=True)
        )
        generator = generator._replace(params=params, buffers=buffers)
        return Pair(generator, discriminator, average)


def norm_names(network: nn.Module) -> Names:
    """Return the names of all parameters and buffers in normalisation layers."""
    return names_in(network, ["normalisation"])
