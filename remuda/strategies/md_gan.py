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

With ``discriminators`` = M < N, as section VII-4 proposes, a member is a discriminator and serves a
group of workers: between two swaps, it visits one worker of the group (see ``md_gan_visits``).

A round is one pass over a worker's data, or ``steps_per_round`` of these iterations. All three
messages can be compressed, as section VII-2 suggests (see ``compression``).
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from remuda.data.batches import Batch
from remuda.data.images import to_unit
from remuda.engines.base import Engine
from remuda.errors import UserError
from remuda.gan import Overrides, Pair, Player
from remuda.gan.overrides import NO_OVERRIDES
from remuda.population import derangement, survivors
from remuda.strategies.context import Context, Metrics, Report
from remuda.strategies.facts import TrafficPlan
from remuda.strategies.md_gan_feedback import FeedbackRules, Message
from remuda.strategies.md_gan_inputs import Iteration, draw_iterations, update_keys
from remuda.strategies.md_gan_visits import Visiting
from remuda.tensors import random, trees
from remuda.tensors.functions import Partial
from remuda.tensors.trees import Tree


class Server(NamedTuple):
    """The generator, and the moving average of its weights."""

    generator: Player
    average: dict[str, Tensor]
    kept: Tensor | tuple[()] = ()  # during a round: how much of each worker's feedback was used
    agreement: Tensor | tuple[()] = ()  # (N, N): of every two workers


class State(NamedTuple):
    """The server's generator and the workers' discriminators."""

    server: Server
    workers: Player  # rows: the discriminators
    memory: Tree = ()  # rows: what compression removed from the last feedback; empty: nothing


@dataclass(frozen=True, kw_only=True)
class MDGAN(FeedbackRules, Visiting):
    """MD-GAN; ``discriminator_steps`` is the paper's L. All L steps use the same two batches."""

    # k in the paper, from 1 to the number of members; log: the integer part of log2(members).
    num_fake_batches: int | Literal["log"] = "log"
    lose_every: int = 0  # rounds after which another member is lost; one always remains; 0 = never
    same_start: bool = True  # whether all discriminators start with the same weights

    on_failure: ClassVar[Literal["drop", "move"]] = "drop"  # data never leave their members
    partitions: ClassVar[tuple[str, ...]] = ("iid", "class", "dirichlet", "subset")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_not_negative("lose_every")
        k = self.num_fake_batches
        if k != "log" and k < 1:
            raise UserError(f'strategy.num_fake_batches must be "log" or at least 1, not {k}')

    def num_members(self, requested: int, num_classes: int) -> int:
        size = self.num_discriminators(requested)
        num_batches, enlarge = self.num_batches(size), partial(self.enlarged, requested)
        if num_batches > size:
            raise UserError(
                f"strategy.num_fake_batches={num_batches} is more than the {size} members, but "
                "every batch needs a worker that returns feedback: set "
                f"strategy.num_fake_batches={size}, or {enlarge(num_batches)}"
            )
        # With log, a larger population would have more batches.
        remedy = "" if self.num_fake_batches == 1 else "strategy.num_fake_batches=1"
        self.check_liars(size, size // num_batches, remedy=remedy, enlarge=enlarge)
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
        num_active = min(self.discriminators, num_workers)
        return TrafficPlan(
            num_fake_batches=self.num_batches(num_active or num_workers),
            epochs=self.swap_every or 1,
            swaps=self.swap_every > 0,
            num_active=num_active,
            down=self.down,
            up=self.up,
            across=self.across,
        )

    def init(self, context: Context, engine: Engine) -> State:
        """Return the first state."""
        first = self.first_pair(context)
        server = Server(first.generator, first.average, (), self.first_agreement(engine.size))
        server = trees.to(server, engine.device)
        if self.same_start:
            workers = engine.create(
                lambda member: self.copy_pair(context, first, member).discriminator
            )
        else:
            workers = self.new_pairs(context, engine).discriminator
        shape = len(engine.members), self.batch_size, *context.gan.shape
        return State(server, workers, self.new_memory(torch.zeros(shape, device=engine.device)))

    def round(
        self, context: Context, engine: Engine, state: State, real: Batch, t: int
    ) -> tuple[State, Metrics]:
        alive = self.alive(context, engine.size, t)
        real = self.with_false_labels(context, engine, real)
        iterations = self.iterations(context, engine, real, alive, t)
        state = state._replace(server=self.start_counting(engine, state.server))
        state, losses = engine.loop(Partial(self.iterate, context), state, iterations)
        server, counts = self.stop_counting(engine, state.server, len(iterations.labels))
        state, facts = state._replace(server=server), {}
        if self.swap_every and t % self.swap_every == 0:
            source = derangement(random.key(context.seed, "swap", t), alive)
            state = state._replace(workers=self.swap(engine, state.workers, source))
            facts = self.swap_facts(engine, source)
        losses = trees.map(lambda x: x.mean(0), losses)
        return state, Report(losses | counts | state.workers.metrics(), facts)

    def iterate(
        self, context: Context, engine: Engine, state: State, now: Iteration
    ) -> tuple[State, Metrics]:
        """Run one global iteration: lines 4 to 10 and 27 to 40 of algorithm 1."""
        fakes = self.scatter(
            engine, lambda server: self.generate_batches(context, server, now), state.server
        )
        overrides = NO_OVERRIDES._replace(**now.scheduled)
        workers, message, losses = engine.map(
            lambda lies, *worker: self.send_feedback(context, lies, *worker, overrides=overrides),
            now.lies,
            state.workers,
            fakes,
            now.fake_labels,
            now.images,
            now.labels,
            now.keys,
        )
        server, memory = self.gather(
            engine,
            lambda server, *message: self.apply_feedback(context, server, now, Message(*message)),
            state.server,
            message.feedback,
            state.memory,
            message.outputs,
        )
        return State(server, workers, memory), losses

    # Functions of the server

    def generate_batches(self, context: Context, server: Server, now: Iteration) -> Tensor:
        """Return X_g and X_d for every worker, (N, 2, b, C, H, W); if k = 1, (N, 1, ...)."""
        noise, classes = now.noise.flatten(0, 1), now.classes.flatten()
        fakes, _, _ = context.gan.generate(server.generator, noise, classes)
        batches = fakes.unflatten(0, now.noise.shape[:2])
        return batches[now.places] if len(now.noise) > 1 else batches[now.places[:, :1]]

    def apply_feedback(
        self, context: Context, server: Server, now: Iteration, message: Message
    ) -> Server:
        """Backpropagate the combined feedback (N, b, ...), and update the generator."""
        generator, average, kept, agreement = server
        noise, classes = now.noise.flatten(0, 1), now.classes.flatten()
        _, buffers, pull = context.gan.generate(generator, noise, classes)
        gradients, used, agreement = self.combine(message, now, agreement)
        generator = generator._replace(buffers=buffers)
        gradients, overrides = pull(gradients.flatten(0, 1)), NO_OVERRIDES._replace(**now.scheduled)
        generator = context.gan.apply_gradients(generator, gradients, overrides)
        average = context.gan.update_average(average, generator, overrides)
        return Server(generator, average, trees.map(torch.add, kept, used), agreement)

    # Functions of one worker

    def send_feedback(
        self,
        context: Context,
        lies: tuple[Tensor, ...],
        worker: Player,
        *inputs: Tensor,
        overrides: Overrides,
    ) -> tuple[Player, Message, Metrics]:
        """Compute the feedback and return what the worker sends, which is false if it lies."""
        trained, message, losses = self.compute_feedback(
            context, worker, *inputs, overrides=overrides
        )
        trained, message = self.sent(lies, worker, trained, message)
        return trained, message, losses

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
    ) -> tuple[Player, Message, Metrics]:
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
        worker, feedback, loss, outputs = gan.feedback_and_outputs(
            worker, x_g, fake_labels[0], real=own
        )
        metrics = {"discriminator_loss": torch.stack(losses).mean(), "generator_loss": loss}
        return worker, Message(feedback, () if self.forgive == "none" else outputs), metrics

    # The inputs of a round

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
        drawn = draw_iterations(context, engine, real, alive, t, k, keys, scheduled)
        return drawn._replace(lies=self.lies(context, engine, t, num_steps))

    # The state and the model

    def rows(self, state: State) -> Tree:
        return state.workers, state.memory

    def with_rows(self, state: State, rows: Tree) -> State:
        workers, memory = rows or ((), ())
        return state._replace(workers=workers, memory=memory)

    def resize(self, old_size: int, size: int) -> list[int | None]:
        """Give each new worker a copy of another worker's discriminator, as in section IV-A."""
        if self.lose_every:
            raise UserError(
                "strategy.lose_every removes the members that the run started with, one after the "
                "other: leave run.members as it was"
            )
        if self.discriminators and size != old_size:
            raise UserError(
                f"strategy.discriminators={self.discriminators} fixes the number of members, "
                f"so {size} cannot train: start a new run"
            )
        return [worker % old_size for worker in range(size)]

    def authors(self, engine: Engine, state: State, noise: Tensor, labels: Tensor) -> Tensor:
        return torch.zeros_like(labels)

    def generators(self, engine: Engine, state: Any) -> Pair:
        """Return the server's generator as row 0; no other process has it."""
        return engine.gather(
            lambda server: trees.stack([Pair(server.generator, server.generator, server.average)]),
            state.server,
        )
