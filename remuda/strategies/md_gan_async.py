"""Asynchronous MD-GAN: the server applies every worker's feedback as soon as it arrives.

C. Hardy, E. Le Merrer, B. Sericola, "MD-GAN: Multi-Discriminator Generative Adversarial Networks
for Distributed Datasets", IPDPS 2019, section VII-1, with learning rates as in W. Zhang, S. Gupta,
X. Lian, J. Liu, "Staleness-aware async-SGD for distributed deep learning", IJCAI 2016.

    worker            L steps of D_n on its own real images and X_d
                      F_n = gradient of G's loss with respect to X_g
    worker -> server  F_n, whenever it is ready
    server            backpropagate F_n through the present G at the noise of X_g
                      update G with Adam; the learning rate falls with the age of X_g
    server -> worker  X_g, X_d = G(fresh noise), for this worker only
    worker -> worker  D_n            between rounds, among workers that are due

The age of feedback is the number of updates of G since X_g was made. A round ends when as many
messages have arrived as in a round of MD-GAN. Whatever is in flight then stays in flight.
"""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from remuda.engines import racing
from remuda.engines.base import Engine
from remuda.engines.racing import Hub, Race, Runners
from remuda.gan import Pair, Player
from remuda.gan.overrides import NO_OVERRIDES
from remuda.population import derangement
from remuda.strategies.asynchronous import Asynchronous, Real, mean_losses
from remuda.strategies.context import Context, Metrics, Report
from remuda.strategies.facts import TrafficPlan
from remuda.strategies.md_gan import MDGAN
from remuda.strategies.md_gan_visits import WORKERS
from remuda.tensors import random, trees
from remuda.tensors.functions import Partial
from remuda.tensors.trees import Tree

LOSSES = ("discriminator_loss", "generator_loss")


class Server(NamedTuple):
    """The generator, the moving average of its weights, and the number of its updates."""

    generator: Player
    average: dict[str, Tensor]
    updates: Tensor


class Workers(NamedTuple):
    """The workers; every leaf has one row per worker."""

    runners: Runners  # their discriminators, and their tasks as mail
    since_swap: Tensor  # turns since the worker's last swap
    losses: dict[str, Tensor]  # means over the last round in which a turn of the worker ended


class State(NamedTuple):
    """The server and the workers, including everything that is in flight."""

    server: Server
    workers: Workers


class Task(NamedTuple):
    """What a worker works on."""

    fakes: Tensor  # (2, b, C, H, W): X_g and X_d; (1, ...) if they are the same batch
    labels: Tensor  # (2, b)
    key: Tensor  # of the noise and the labels
    version: Tensor  # updates of the generator before these images were made


@dataclass(frozen=True, kw_only=True)
class AsyncMDGAN(Asynchronous):
    """Asynchronous MD-GAN. A round has steps_per_round arrivals per worker, on average."""

    # k in the paper; here only whether X_g and X_d are the same batch (1) or two batches.
    num_fake_batches: int | Literal["log"] = "log"
    swap_every: int = 1  # rounds of turns after which a worker is due to swap; 0 = never
    swap_optimizer: Literal["keep", "carry", "reset"] = "keep"  # as in MD-GAN
    # The learning rate of an update is divided by (1 + age of the feedback) to this power, >= 0.
    staleness_power: float = 1.0
    busy_workers: int = 0  # workers that work at the same time, at most all; 0 = all

    on_failure: ClassVar[Literal["drop", "move"]] = "drop"  # data never leave their members
    partitions: ClassVar[tuple[str, ...]] = MDGAN.partitions

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_not_negative("staleness_power", "busy_workers")
        assert self.paper  # checks the other settings

    # Engines recognise a compiled step by the strategy that it belongs to, so keep one object.
    @cached_property
    def paper(self) -> MDGAN:
        """The synchronous strategy with the same settings."""
        names = {part.name for part in fields(self)} & {part.name for part in fields(MDGAN)}
        return MDGAN(**{name: getattr(self, name) for name in names})

    def num_members(self, requested: int, num_classes: int) -> int:
        return requested or WORKERS

    def batches_per_round(self, images_per_member: float) -> int:
        return self.paper.batches_per_round(images_per_member)

    def steps_in(self, num_batches: int) -> int:
        return num_batches

    def batches_for(self, steps: int) -> int:
        return steps

    def traffic_plan(self, num_workers: int) -> TrafficPlan:
        return self.paper.traffic_plan(num_workers)

    def num_busy(self, size: int) -> int:
        """Return how many of the workers work at the same time."""
        return min(self.busy_workers or size, size)

    # The method

    def init(self, context: Context, engine: Engine) -> State:
        """Return the first state: all workers have the same weights, and their first tasks."""
        first = self.first_pair(context)
        updates = torch.zeros((), dtype=torch.int64)
        server = trees.to(Server(first.generator, first.average, updates), engine.device)
        members = torch.tensor(list(engine.members), device=engine.device)
        discriminators = engine.create(
            lambda member: self.paper.copy_pair(context, first, member).discriminator
        )
        tasks = engine.scatter(Partial(Partial(self.first_tasks, context), engine.size), server)
        race = racing.start(
            server,
            discriminators,
            tasks,
            members,
            self.pace(context),
            size=engine.size,
            num_busy=self.num_busy(engine.size),
        )
        losses = {name: torch.zeros(len(members), device=engine.device) for name in LOSSES}
        return State(server, Workers(race.members, torch.zeros_like(members), losses))

    def round(
        self, context: Context, engine: Engine, state: State, real: Real, t: int
    ) -> tuple[State, Metrics]:
        (server, workers), facts = state, {}
        if self.swap_every:  # before the race: if a rank is lost during the race, no work is lost
            due_after = self.swap_every * real.num_batches
            workers, facts = self.swap(context, engine, workers, due_after, t)
        before, since_swap, losses = workers
        count = engine.size * real.num_batches
        first = server.updates if server else torch.tensor(0)
        hub = Hub(
            apply=lambda server, member, number, message: self.apply_feedback(
                context, self.moment(t, count, server.updates - first), server, message
            ),
            write=Partial(self.write_task, context),
            num_busy=self.num_busy(engine.size),
        )
        turn = Partial(Partial(self.turn, context), real._replace(first=engine.members[0]))
        raced = engine.race(turn, hub, Race(server, before), count, self.pace(context))
        server, runners = raced.state
        turned, losses = mean_losses(raced, before, losses)
        workers = Workers(runners, since_swap + (runners.turns - before.turns), losses)
        metrics = losses | turned | runners.rows.metrics()
        return State(server, workers), Report(metrics, facts)

    # Functions of the server

    def first_tasks(self, context: Context, size: int, server: Server) -> Task:
        """Make the tasks of all workers' first turns."""
        tasks = [self.write_task(context, server, member, 0) for member in range(size)]
        return trees.map(lambda *leaves: torch.cat(leaves), *tasks)

    def write_task(self, context: Context, server: Server, member: int, number: int) -> Task:
        """Make a worker's batches for turn ``number``, with a leading axis of length 1."""
        key = random.keys(context.seed, "task", [member], number, device=server.updates.device)[0]
        noise, labels = self.task_inputs(context, key)
        fakes, _, _ = context.gan.generate(server.generator, noise.flatten(0, 1), labels.flatten())
        fakes = fakes.unflatten(0, noise.shape[:2])
        return trees.map(lambda leaf: leaf[None], Task(fakes, labels, key, server.updates))

    def task_inputs(self, context: Context, key: Tensor) -> tuple[Tensor, Tensor]:
        """Return the noise (2, b, latent) and the labels (2, b) of X_g and X_d."""
        gan = context.gan
        shape = 1 if self.num_fake_batches == 1 else 2, self.batch_size
        noise = random.normal(key, (*shape, gan.networks.latent))
        labels = random.bits(random.fold(key, 2), shape) & 0x7FFFFFFF
        return noise, labels.long() % max(1, gan.num_classes)

    def moment(self, t: int, count: int, updates: Tensor) -> dict[str, Tensor]:
        """Return the scheduled values after some updates of round t, which has about ``count``."""
        scheduled = trees.row(self.scheduled(t, count), min(int(updates), count - 1))
        return trees.to(scheduled, updates.device)

    def apply_feedback(
        self,
        context: Context,
        scheduled: dict[str, Tensor],
        server: Server,
        message: tuple[Tensor, Tensor, Tensor],
    ) -> Server:
        """Backpropagate one worker's feedback (1, b, ...) through the present generator."""
        feedback, key, version = trees.row(message, 0)
        noise, labels = self.task_inputs(context, key)
        _, buffers, pull = context.gan.generate(server.generator, noise[0], labels[0])
        age = (server.updates - version).float()
        factor = (1 + age) ** -self.staleness_power * scheduled.get("lr_factor", 1.0)
        overrides = NO_OVERRIDES._replace(**{**scheduled, "lr_factor": factor})
        generator = server.generator._replace(buffers=buffers)
        generator = context.gan.apply_gradients(generator, pull(feedback), overrides)
        average = context.gan.update_average(server.average, generator, overrides)
        return Server(generator, average, server.updates + 1)

    # Functions of a worker

    def turn(
        self, context: Context, real: Real, engine: Engine, worker: Player, task: Task, n: int
    ) -> tuple[Player, tuple[Tensor, Tensor, Tensor], Metrics]:
        """Run turn n of the only worker of this engine, on the worker's n-th batch."""
        images, labels = real.batches.draw_row(engine.members[0] - real.first, n, 1)
        keys = random.keys(context.seed, "turns", engine.members, n, device=engine.device)
        numbers = torch.arange(self.discriminator_steps, device=engine.device)
        t, step = divmod(n, real.num_batches)  # schedules follow the worker's own turns
        scheduled = trees.row(self.scheduled(t + 1, real.num_batches), step)
        overrides = NO_OVERRIDES._replace(**trees.to(scheduled, engine.device))
        worker, message, losses = engine.map(
            lambda *each: self.paper.compute_feedback(context, *each, overrides=overrides),
            worker,
            task.fakes,
            task.labels[:, [0, -1]],
            images[:, 0],
            labels[:, 0],
            random.fold(keys[:, None], numbers),
        )
        return worker, (message.feedback, task.key, task.version), losses

    # Exchanges between workers

    def swap(
        self, context: Context, engine: Engine, workers: Workers, due_after: int, t: int
    ) -> tuple[Workers, dict[str, Tree]]:
        """Swap the discriminators of workers that have made enough turns since their last swap.

        Also return who has received whose discriminator, if any have moved.
        """
        everyone = torch.arange(engine.size).expand(engine.size, -1)
        since = trees.row(engine.take(workers.since_swap, everyone), 0).cpu()
        is_due = since >= due_after
        if is_due.sum() < 2:
            return workers, {}
        source = derangement(random.key(context.seed, "swap", t), is_due)
        swapped = self.paper.swap(engine, workers.runners.rows, source)
        here = is_due[list(engine.members)].to(engine.device)
        workers = workers._replace(
            runners=workers.runners._replace(rows=swapped),
            since_swap=torch.where(here, 0, workers.since_swap),
        )
        return workers, self.paper.swap_facts(engine, source)

    # The state and the model

    def rows(self, state: State) -> Tree:
        return state.workers

    def with_rows(self, state: State, rows: Tree) -> State:
        return state._replace(workers=rows)

    def resize(self, old_size: int, size: int) -> list[int | None]:
        return self.paper.resize(old_size, size)

    def authors(self, engine: Engine, state: State, noise: Tensor, labels: Tensor) -> Tensor:
        return torch.zeros_like(labels)

    def generators(self, engine: Engine, state: State) -> Pair:
        return self.paper.generators(engine, state)
