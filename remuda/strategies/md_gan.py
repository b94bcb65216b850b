"""MD-GAN: one generator on a server, and N discriminators on workers that keep their own data.

C. Hardy, E. Le Merrer, B. Sericola, "MD-GAN: Multi-Discriminator Generative Adversarial Networks
for Distributed Datasets", IPDPS 2019, algorithm 1.

    server            X(1) ... X(k) = G(noise)
    server -> worker  X_g, X_d       two of the k batches; the same one if k = 1
    worker            L steps of D_n on its own real images and X_d
                      F_n = gradient of G's loss with respect to X_g
    worker -> server  F_n
    server            backpropagate the mean of all F_n through G, and update G with Adam
    worker -> worker  D_n            every E local epochs, along a random derangement

A round is one pass over a worker's data, or ``steps_per_round`` of these iterations.
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
from remuda.gan import Overrides, Pair, Player
from remuda.gan.overrides import NO_OVERRIDES
from remuda.networks.layers import one_hot
from remuda.population import derangement, survivors
from remuda.strategies.base import Strategy
from remuda.strategies.context import Context, Metrics
from remuda.strategies.facts import TrafficPlan
from remuda.strategies.md_gan_inputs import Iteration, draw_iterations, update_keys
from remuda.tensors import random, trees
from remuda.tensors.functions import Partial

WORKERS = 10  # as in most of the paper's experiments


class Server(NamedTuple):
    """The generator, and the moving average of its weights."""

    generator: Player
    average: dict[str, Tensor]


class State(NamedTuple):
    """The server's generator and the workers' discriminators."""

    server: Server
    workers: Player  # rows: the discriminators


@dataclass(frozen=True, kw_only=True)
class MDGAN(Strategy):
    """MD-GAN; ``discriminator_steps`` is the paper's L. All L steps use the same two batches."""

    # k in the paper, from 1 to the number of members; log: the integer part of log2(members).
    num_fake_batches: int | Literal["log"] = "log"
    swap_every: int = 1  # E in the paper: rounds between swaps of discriminators; 0 = never
    # What happens to Adam's moments in a swap: keep them on the worker, move them with D, or reset.
    swap_optimizer: Literal["keep", "carry", "reset"] = "keep"
    lose_every: int = 0  # rounds after which another member is lost; one always remains; 0 = never

    on_failure: ClassVar[Literal["drop", "move"]] = "drop"  # data never leave their members
    partitions: ClassVar[tuple[str, ...]] = ("iid", "class", "dirichlet", "subset")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("swap_every", "lose_every"):
            if getattr(self, name) < 0:
                raise UserError(f"strategy.{name} must be at least 0, not {getattr(self, name)}")
        k = self.num_fake_batches
        if k != "log" and k < 1:
            raise UserError(f'strategy.num_fake_batches must be "log" or at least 1, not {k}')

    def num_members(self, requested: int, num_classes: int) -> int:
        size = requested or WORKERS
        if self.num_batches(size) > size:
            raise UserError(
                f"strategy.num_fake_batches={self.num_fake_batches} is more than the {size} "
                "members, but every batch needs a worker that returns feedback: lower "
                "strategy.num_fake_batches or raise run.members"
            )
        return size

    def num_batches(self, size: int) -> int:
        """Return k for a population of this size."""
        if self.num_fake_batches == "log":
            return max(1, int(math.log2(size)))
        return self.num_fake_batches

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
        """Return the first state, in which all workers have the same weights."""
        first = self.first_pair(context)
        server = trees.to(Server(first.generator, first.average), engine.device)
        workers = engine.create(lambda member: self.copy_pair(context, first, member).discriminator)
        return State(server, workers)

    def round(
        self, context: Context, engine: Engine, state: State, real: Batch, t: int
    ) -> tuple[State, Metrics]:
        alive = self.alive(context, engine.size, t)
        iterations = self.iterations(context, engine, real, alive, t)
        state, losses = engine.loop(Partial(self.iterate, context), state, iterations)
        if self.swap_every and t % self.swap_every == 0:
            source = derangement(random.key(context.seed, "swap", t), alive)
            state = state._replace(workers=self.swap(engine, state.workers, source))
        return state, trees.map(lambda x: x.mean(0), losses) | state.workers.metrics()

    def iterate(
        self, context: Context, engine: Engine, state: State, now: Iteration
    ) -> tuple[State, Metrics]:
        """Run one global iteration: lines 4 to 10 and 27 to 40 of algorithm 1."""
        fakes = engine.scatter(
            lambda server: self.generate_batches(context, server, now), state.server
        )
        overrides = NO_OVERRIDES._replace(**now.scheduled)
        workers, feedback, losses = engine.map(
            lambda *worker: self.compute_feedback(context, *worker, overrides=overrides),
            state.workers,
            fakes,
            now.fake_labels,
            now.images,
            now.labels,
            now.keys,
        )
        server = engine.gather(
            lambda server, feedback: self.apply_feedback(context, server, now, feedback),
            state.server,
            feedback,
        )
        return State(server, workers), losses

    # Functions of the server

    def generate_batches(self, context: Context, server: Server, now: Iteration) -> Tensor:
        """Return X_g and X_d for every worker, (N, 2, b, C, H, W); if k = 1, (N, 1, ...)."""
        noise, classes = now.noise.flatten(0, 1), now.classes.flatten()
        fakes, _, _ = context.gan.generate(server.generator, noise, classes)
        batches = fakes.unflatten(0, now.noise.shape[:2])
        return batches[now.places] if len(now.noise) > 1 else batches[now.places[:, :1]]

    def apply_feedback(
        self, context: Context, server: Server, now: Iteration, feedback: Tensor
    ) -> Server:
        """Backpropagate the mean of the feedback (N, b, ...), and update the generator."""
        generator, average = server
        noise, classes = now.noise.flatten(0, 1), now.classes.flatten()
        _, buffers, pull = context.gan.generate(generator, noise, classes)
        # (k, N): the weight of each worker's feedback in the gradient for each batch.
        shares = one_hot(now.places[:, 0], len(now.noise)).T * now.weights
        # A weight of 0 is not enough for lost workers: if they diverged, 0 times NaN is NaN.
        is_alive = (now.weights > 0).reshape(-1, *[1] * (feedback.ndim - 1))
        feedback = torch.where(is_alive, feedback, 0.0)
        gradients = torch.einsum("kn,n...->k...", shares, feedback)
        generator = generator._replace(buffers=buffers)
        gradients, overrides = pull(gradients.flatten(0, 1)), NO_OVERRIDES._replace(**now.scheduled)
        generator = context.gan.apply_gradients(generator, gradients, overrides)
        return Server(generator, context.gan.update_average(average, generator, overrides))

    # Functions of one worker

    def compute_feedback(
        self,
        context: Context,
        worker: Player,
        fakes: Tensor,
        fake_labels: Tensor,
        images: Tensor,
        labels: Tensor,
        keys: Tensor,
        overrides: Overrides = NO_OVERRIDES,
    ) -> tuple[Player, Tensor, Metrics]:
        """Train the discriminator for L steps on X_d, then return the feedback on X_g.

        The feedback is the gradient of the generator's loss with respect to the images of X_g.
        """
        gan, real = context.gan, to_unit(images)
        x_g, x_d = fakes[0], fakes[-1]
        losses = []
        for step in range(self.discriminator_steps):
            worker, loss = gan.update_discriminator(
                worker, real, x_d, labels, keys[step], fake_labels[1], overrides
            )
            losses.append(loss)
        own = real, labels  # losses that pair images compare X_g with the worker's own images
        worker, feedback, loss = gan.feedback(worker, x_g, fake_labels[0], real=own)
        metrics = {"discriminator_loss": torch.stack(losses).mean(), "generator_loss": loss}
        return worker, feedback, metrics

    # Exchanges between workers

    def swap(self, engine: Engine, workers: Player, source: Tensor) -> Player:
        """Move every discriminator to another worker."""
        if self.swap_optimizer == "carry":
            return engine.take(workers, source)
        params, buffers = engine.take((workers.params, workers.buffers), source)
        moments = workers.moments
        if self.swap_optimizer == "reset":
            moments = trees.map(torch.zeros_like, moments)
        return Player(params, buffers, moments)

    def alive(self, context: Context, size: int, t: int) -> Tensor:
        """Return which workers are alive in round t, (N,)."""
        num_lost = (t - 1) // self.lose_every if self.lose_every else 0
        return survivors(random.key(context.seed, "lose"), size, num_lost)

    def iterations(
        self, context: Context, engine: Engine, real: Batch, alive: Tensor, t: int
    ) -> Iteration:
        """Draw the inputs of all iterations of round t, with a leading axis of iterations."""
        num_steps, k = real.labels.shape[1], self.num_batches(engine.size)
        keys = update_keys(context.seed, engine, t, num_steps, self.discriminator_steps)
        scheduled = self.scheduled(t, num_steps, num_batches=k)
        return draw_iterations(context, engine, real, alive, t, k, keys, scheduled)

    # The state and the model

    def rows(self, state: State) -> Player:
        return state.workers

    def with_rows(self, state: State, rows: Player) -> State:
        return state._replace(workers=rows)

    def resize(self, old_size: int, size: int) -> list[int | None]:
        """Give each new worker a copy of another worker's discriminator, as in section IV-A."""
        if self.lose_every:
            raise UserError(
                "strategy.lose_every removes the members that the run started with, one after the "
                "other: leave run.members as it was"
            )
        return [worker % old_size for worker in range(size)]

    def authors(self, engine: Engine, state: State, noise: Tensor, labels: Tensor) -> Tensor:
        return torch.zeros_like(labels)

    def generators(self, engine: Engine, state: State) -> Pair:
        """Return the server's generator as row 0; no other process has it."""
        return engine.gather(
            lambda server: trees.stack([Pair(server.generator, server.generator, server.average)]),
            state.server,
        )
