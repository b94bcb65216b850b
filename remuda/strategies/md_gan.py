"""MD-GAN: one generator at a server against N discriminators beside data that never move.

C. Hardy, E. Le Merrer, B. Sericola, "MD-GAN: Multi-Discriminator Generative Adversarial Networks for Distributed
Datasets", IPDPS 2019, algorithm 1.

    server            X(1) ... X(k) = G(noise)
    server -> worker  X_g, X_d              two of the k batches, the same one where k = 1
    worker            L steps of D_n on its own real images and X_d;  F_n = gradient of G's loss at X_g
    worker -> server  F_n
    server            mean of all F_n, pulled back through G, Adam
    worker -> worker  D_n                   every E local epochs, along a random derangement

A round is as many of these iterations as a pass over a worker's data takes, or ``steps_per_round``.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from remuda.data.batches import Batch
from remuda.data.images import to_unit
from remuda.engines.base import Engine
from remuda.errors import UserError
from remuda.gan import Pair, Player
from remuda.gan.players import blend
from remuda.networks.layers import one_hot
from remuda.population import derangement, survivors
from remuda.strategies.base import Context, Metrics, Strategy, TrafficPlan
from remuda.tensors import random, trees
from remuda.tensors.functions import Partial
from remuda.tensors.trees import Tree

WORKERS = 10  # as in most of the paper's experiments


class Server(NamedTuple):
    generator: Player
    average: dict[str, Tensor]


class State(NamedTuple):
    server: Server
    workers: Player  # rows: the discriminators


@dataclass(frozen=True, kw_only=True)
class MDGAN(Strategy):
    """``discriminator_steps`` is the paper's L: all on the same two batches, as algorithm 1 has it."""

    num_fake_batches: int | Literal["log"] = (
        "log"  # k in the paper, 1 to members; log: the whole part of log2(members)
    )
    swap_every: int = 1  # E in the paper: rounds between swaps of discriminators, >= 1; 0 = never
    swap_optimizer: Literal["keep", "carry", "reset"] = (
        "keep"  # Adam's moments: of the worker, of D, or new
    )
    lose_every: int = (
        0  # rounds after which one member is lost for good, and so on to the last; 0 = none
    )

    on_failure: ClassVar[Literal["drop", "move"]] = "drop"  # data never leave their members
    partitions: ClassVar[tuple[str, ...]] = ("iid", "class", "dirichlet", "subset")

    def __post_init__(self):
        super().__post_init__()
        for name in ("swap_every", "lose_every"):
            if getattr(self, name) < 0:
                raise UserError(f"strategy.{name} must be at least 0, not {getattr(self, name)}")
        if self.num_fake_batches != "log" and self.num_fake_batches < 1:
            raise UserError(
                f'strategy.num_fake_batches must be "log" or at least 1, not {self.num_fake_batches}'
            )

    def num_members(self, requested: int, num_classes: int) -> int:
        size = requested or WORKERS
        if self.num_batches(size) > size:
            raise UserError(
                f"strategy.num_fake_batches={self.num_fake_batches} is more than the {size} members: each of the "
                "batches has to be judged by someone"
            )
        return size

    def num_batches(self, size: int) -> int:
        """k for a population of that size."""
        return (
            max(1, int(math.log2(size)))
            if self.num_fake_batches == "log"
            else self.num_fake_batches
        )

    def batches_per_round(self, images_per_member: float) -> int:
        return self.steps_per_round or int(-(-images_per_member // self.batch_size))

    def steps_in(self, num_batches: int) -> int:
        return num_batches

    def batches_for(self, steps: int) -> int:
        return steps

    def traffic_plan(self, num_workers: int) -> TrafficPlan:
        return TrafficPlan(
            num_fake_batches=self.num_batches(num_workers),
            epochs=self.swap_every or 1,
            swaps=self.swap_every > 0,
        )

    def init(self, context: Context, engine: Engine) -> State:
        """All workers begin with the same weights."""
        first = context.gan.init(random.key(context.seed, "init", 0))
        server = trees.to(Server(first.generator, first.average), engine.device)
        return State(
            server, engine.create(lambda member: self.alike(context, member, first).discriminator)
        )

    def round(
        self, context: Context, engine: Engine, state: State, real: Batch, t: int
    ) -> tuple[State, Metrics]:
        alive = self.alive(context, engine, t)
        inputs = self._inputs(context, engine, real, alive, t)
        state, losses = engine.loop(Partial(self.iterate, context), state, *inputs)
        if self.swap_every and t % self.swap_every == 0:
            source = derangement(random.key(context.seed, "swap", t), alive)
            state = state._replace(workers=self.swap(engine, state.workers, source))
        return state, {name: values.mean(0) for name, values in losses.items()}

    def alive(self, context: Context, engine: Engine, t: int) -> Tensor:
        num_lost = (t - 1) // self.lose_every if self.lose_every else 0
        return survivors(random.key(context.seed, "lose"), engine.size, num_lost)

    def _inputs(
        self, context: Context, engine: Engine, real: Batch, alive: Tensor, t: int
    ) -> tuple[Tree, ...]:
        """What the iterations of a round use, with a leading axis of iterations; all of it drawn from keys."""
        steps, k = real.labels.shape[1], self.num_batches(engine.size)
        device, key = (
            engine.device,
            random.keys(context.seed, "steps", [0], t, device=engine.device)[0],
        )
        noise = random.normal(key, (steps, k, self.batch_size, context.gan.networks.latent))
        classes = random.bits(random.fold(key, 2), (steps, k, self.batch_size)) & 0x7FFFFFFF
        classes = classes.long() % max(1, context.gan.num_classes)
        places = batch_places(alive, k).to(device)
        mine = places[torch.tensor(list(engine.members), device=device)]
        updates = torch.arange(steps * self.discriminator_steps, device=device).reshape(
            steps, 1, -1
        )
        keys = random.fold(
            random.keys(context.seed, "steps", engine.members, t, device=device)[:, None], updates
        )
        images, labels = (leaf.transpose(0, 1) for leaf in real)
        weights = (alive.float() / alive.sum()).to(device).expand(steps, -1)
        return (
            images,
            labels,
            classes[:, mine],
            keys,
            noise,
            classes,
            places.expand(steps, -1, -1),
            weights,
        )

    def iterate(
        self,
        context: Context,
        engine: Engine,
        state: State,
        images,
        labels,
        asked,
        keys,
        noise,
        classes,
        places,
        weights,
    ) -> tuple[State, Metrics]:
        """One global iteration: lines 4 to 10 and 27 to 40 of algorithm 1."""
        fakes = engine.scatter(
            Partial(self.hand_out, context), state.server, noise, classes, places
        )
        workers, feedback, losses = engine.map(
            Partial(self.judge, context), state.workers, fakes, asked, images, labels, keys
        )
        server = engine.gather(
            Partial(self.descend, context),
            (state.server, noise, classes, places, weights),
            feedback,
        )
        return State(server, workers), losses

    def hand_out(
        self, context: Context, server: Server, noise: Tensor, classes: Tensor, places: Tensor
    ) -> Tensor:
        """For every worker the batch to judge and the batch to train on (N, 2, b, ...); where k = 1, one for both."""
        fakes, _, _ = context.gan.imagine(server.generator, noise.flatten(0, 1), classes.flatten())
        batches = fakes.unflatten(0, noise.shape[:2])
        return batches[places] if len(noise) > 1 else batches[places[:, :1]]

    def judge(
        self,
        context: Context,
        worker: Player,
        fakes: Tensor,
        asked: Tensor,
        images: Tensor,
        labels: Tensor,
        keys: Tensor,
    ) -> tuple[Player, Tensor, Metrics]:
        """L steps of the discriminator, then the gradient of the generator's loss at every image of X_g."""
        judged, learnt = fakes[0], fakes[-1]
        losses = []
        for step in range(self.discriminator_steps):
            worker, loss = context.gan.discriminate(
                worker, to_unit(images), learnt, labels, keys[step], asked[1]
            )
            losses.append(loss)
        worker, feedback, generator_loss = context.gan.judge(worker, judged, asked[0])
        return (
            worker,
            feedback,
            {"discriminator_loss": torch.stack(losses).mean(), "generator_loss": generator_loss},
        )

    def descend(
        self,
        context: Context,
        server: tuple[Server, Tensor, Tensor, Tensor, Tensor],
        feedback: Tensor,
    ) -> Server:
        """Pull the workers' mean feedback back through the generator and step it."""
        (generator, average), noise, classes, places, weights = server
        _, buffers, pull = context.gan.imagine(generator, noise.flatten(0, 1), classes.flatten())
        shares = (
            one_hot(places[:, 0], len(noise)).T * weights
        )  # (k, N): who judged which batch, and what it counts
        is_there = (weights > 0).reshape(-1, *[1] * (feedback.ndim - 1))
        gradients = torch.einsum(
            "kn,n...->k...", shares, torch.where(is_there, feedback, 0.0)
        )  # 0 times NaN is not 0
        generator = context.gan.descend(
            generator._replace(buffers=buffers), pull(gradients.flatten(0, 1))
        )
        return Server(generator, blend(average, generator, self.ema) if self.ema else average)

    def swap(self, engine: Engine, workers: Player, source: Tensor) -> Player:
        """Every discriminator moves on to another worker."""
        if self.swap_optimizer == "carry":
            return engine.take(workers, source)
        params, buffers = engine.take((workers.params, workers.buffers), source)
        moments = workers.moments
        if self.swap_optimizer == "reset":
            moments = trees.map(torch.zeros_like, moments)
        return Player(params, buffers, moments)

    def rows(self, state: State) -> Player:
        return state.workers

    def with_rows(self, state: State, rows: Player) -> State:
        return state._replace(workers=rows)

    def resize(self, state: State, size: int) -> State:
        """Who comes late begins with a copy of another's discriminator, as section IV-A has it."""
        if self.lose_every:
            raise UserError(
                "strategy.lose_every loses the members with which a run began, one after the other: leave run.members "
                "as it was"
            )
        return state._replace(workers=trees.resize(state.workers, size))

    def generate(self, context: Context, state: State, noise: Tensor, labels: Tensor) -> Tensor:
        return context.gan.generate(
            Pair(state.server.generator, state.workers, state.server.average), noise, labels
        )


def batch_places(alive: Tensor, k: int) -> Tensor:
    """(N, 2): which batch each worker judges, and which it trains on; distinct where k > 1.

    The rule of section IV-B1, X_g = X(n mod k + 1) and X_d = X((n + 1) mod k + 1), for the n-th worker that is left.
    """
    n = alive.long().cumsum(0)
    return torch.stack([n % k, (n + 1) % k], 1)
