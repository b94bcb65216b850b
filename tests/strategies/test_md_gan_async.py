"""Asynchronous MD-GAN: one feedback at a time, ages, learning rates, and swaps."""

import pytest
import torch

from remuda.data import Dataset
from remuda.data.batches import Batches
from remuda.engines import Stacked
from remuda.errors import UserError
from remuda.networks import MLP
from remuda.strategies import MDGAN, AsyncMDGAN
from remuda.strategies.md_gan import Server, State
from remuda.strategies.md_gan_inputs import Iteration
from remuda.tensors import random, trees

SHAPE = (1, 8, 8)
NETWORKS = MLP(latent=5, hidden=12)


def make(size, steps=2, **settings):
    strategy = AsyncMDGAN(batch_size=4, steps_per_round=steps, **settings)
    context = strategy.prepare(NETWORKS, SHAPE, 3, seed=7)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (60, *SHAPE), dtype=torch.uint8, generator=generator)
    data = Dataset("toy", images, torch.arange(60) % 3, tuple("abc"))
    shares = list(torch.arange(60).reshape(size, -1))
    batches = Batches(data, shares, members=range(size), batch_size=4, seed=7)
    return strategy, context, Stacked(size), batches


def train(strategy, context, engine, batches, rounds=1):
    state, reports = strategy.init(context, engine), []
    for t in range(1, rounds + 1):
        real = strategy.draw(batches, t, strategy.steps_per_round)
        state, metrics = strategy.round(context, engine, state, real, t)
        reports.append(metrics)
    return state, reports


def iteration(strategy, context, batches, workers, number):
    """Return the inputs of a synchronous iteration with the noise, images and keys of a turn."""
    keys = random.keys(context.seed, "task", workers, number, device="cpu")
    drawn = [strategy.task_inputs(context, key) for key in keys]
    noise, labels = (torch.stack(each) for each in zip(*drawn, strict=True))  # (n, 2, b, ...)
    real = [batches.draw_row(worker, number, 1) for worker in workers]
    keys = random.keys(context.seed, "turns", workers, number, device="cpu")
    places = 2 * torch.arange(len(workers))[:, None] + torch.tensor([0, 1])
    return Iteration(
        images=torch.cat([images[:, 0] for images, _ in real]),
        labels=torch.cat([labels[:, 0] for _, labels in real]),
        keys=random.fold(keys[:, None], torch.arange(strategy.discriminator_steps)),
        fake_labels=labels,
        noise=noise.flatten(0, 1),
        classes=labels.flatten(0, 1),
        places=places,
        weights=torch.full((len(workers),), 1 / len(workers)),
        scheduled={},
    )


def test_one_worker_is_synchronous():
    """With one worker, every feedback is new, and each turn is an iteration of MD-GAN."""
    strategy, context, engine, batches = make(1, steps=3, num_fake_batches=1, swap_every=0)
    state, _ = train(strategy, context, engine, batches)
    paper = strategy.paper
    expected = paper.init(context, engine)
    for number in range(3):
        now = iteration(strategy, context, batches, [0], number)
        now = now._replace(
            noise=now.noise[:1], classes=now.classes[:1], places=torch.zeros(1, 2).long(),
            fake_labels=now.fake_labels[:, [0, 0]],
        )  # fmt: skip
        expected, _ = paper.iterate(context, engine, expected, now)
    generator = state.server.generator
    assert trees.equal(generator.params, expected.server.generator.params)
    assert trees.equal(state.workers.runners.rows.params, expected.workers.params)
    assert state.server.updates == 3


def test_equal_speeds_apply_the_feedback_of_an_iteration_one_by_one():
    """The first N arrivals are the feedback of one synchronous iteration.

    The server applies them one after the other, with a learning rate of 1 / (1 + age), through the
    generator that the earlier ones have changed. The workers do the same as in the iteration.
    """
    strategy, context, engine, batches = make(3, steps=1, speeds=(1.0, 1.0, 1.0))
    gan, first = context.gan, strategy.init(context, engine)
    state, _ = train(strategy, context, engine, batches)
    paper_state = State(Server(*first.server[:2]), first.workers.runners.rows)
    now = iteration(strategy, context, batches, [0, 1, 2], 0)
    fakes = strategy.paper.generate_batches(context, paper_state.server, now)
    workers, message, _ = engine.map(
        lambda *each: strategy.paper.compute_feedback(context, *each),
        paper_state.workers, fakes, now.fake_labels, now.images, now.labels, now.keys,
    )  # fmt: skip
    generator = first.server.generator
    for age in range(3):
        _, buffers, pull = gan.generate(generator, now.noise[2 * age], now.classes[2 * age])
        lr = torch.tensor(strategy.generator_lr / (1 + age))
        params, moments = gan.generator_optimizer.step(
            generator.params, pull(message.feedback[age]), generator.moments, lr
        )
        generator = generator._replace(params=params, buffers=buffers, moments=moments)
    for name, value in state.server.generator.params.items():
        assert torch.allclose(value, generator.params[name], atol=1e-7), name
    assert trees.equal(state.workers.runners.rows.params, workers.params)


@pytest.mark.parametrize("power, factor", [(0.0, 1.0), (0.5, 0.5), (1.0, 0.25)])
def test_the_learning_rate_falls_with_the_age(power, factor):
    """Feedback of age 3: Adam's first step has the length lr / (1 + 3) ** power."""
    strategy, context, engine, _ = make(1, staleness_power=power)
    server = strategy.init(context, engine).server._replace(updates=torch.tensor(5))
    message = torch.ones(1, 4, *SHAPE), torch.tensor([9]), torch.tensor([2])
    after = strategy.apply_feedback(context, {}, server, message)
    name = list(server.generator.params)[-1]  # the last bias: its gradient is not 0
    step = (after.generator.params[name] - server.generator.params[name]).abs().max()
    assert step.item() == pytest.approx(strategy.generator_lr * factor, rel=1e-3)
    assert after.updates == 6


def test_workers_that_are_due_swap():
    """Worker 2 is slow: after a round, only the others have made enough turns."""
    settings = dict(speeds=(1.0, 1.0, 0.1), swap_optimizer="carry")
    strategy, context, engine, batches = make(3, steps=4, **settings)
    state, (metrics,) = train(strategy, context, engine, batches)
    assert metrics["turns"].tolist() == [6, 6, 0]
    assert state.workers.since_swap.tolist() == [6, 6, 0]
    swapped, facts = strategy.swap(context, engine, state.workers, 4, 2)
    assert facts["moved_from"]["members"].tolist() == [1, 0, 2]
    assert swapped.since_swap.tolist() == [0, 0, 0]
    before, after = state.workers.runners.rows, swapped.runners.rows
    for one, other in ((0, 1), (1, 0), (2, 2)):
        assert trees.equal(trees.row(after, one), trees.row(before, other))


def test_a_swap_resets_only_workers_that_are_due():
    """Worker 2 is slow: it does not swap, so it keeps Adam's moments."""
    settings = dict(speeds=(1.0, 1.0, 0.2), swap_optimizer="reset")
    strategy, context, engine, batches = make(3, steps=4, **settings)
    state, (metrics,) = train(strategy, context, engine, batches)
    assert metrics["turns"].tolist() == [6, 5, 1]
    swapped, _ = strategy.swap(context, engine, state.workers, 4, 2)
    before, after = state.workers.runners.rows.moments, swapped.runners.rows.moments
    assert after.steps.tolist() == [0, 0, 1]
    assert trees.equal(trees.row(after, 2), trees.row(before, 2))
    assert all((leaf[:2] == 0).all() for leaf in trees.leaves(after))


def test_a_worker_without_turns_keeps_its_last_losses():
    strategy, context, engine, batches = make(3, steps=2, speeds=(1.0, 1.0, 0.2))
    _, reports = train(strategy, context, engine, batches, rounds=4)
    turns = torch.stack([report["turns"] for report in reports])
    losses = torch.stack([report["discriminator_loss"] for report in reports])
    assert turns.sum(1).tolist() == [6, 6, 6, 6]
    assert turns[:, 2].tolist() == [0, 1, 0, 1]
    assert losses[0, 2] == 0 and losses[1, 2] > 0 and losses[2, 2] == losses[1, 2]


def test_bad_settings_are_refused():
    with pytest.raises(UserError, match=r"speeds must be finite numbers above 0"):
        AsyncMDGAN(speeds=(1.0, 0.0))
    with pytest.raises(UserError, match="staleness_power must be at least 0"):
        AsyncMDGAN(staleness_power=-1.0)


def test_a_lost_worker_leaves_the_tasks_of_the_others_as_they_are():
    """The noise of a task does not depend on a worker's position, which changes."""
    strategy, context, engine, batches = make(3, steps=2)
    state, _ = train(strategy, context, engine, batches)
    rows = trees.map(lambda leaf: leaf[1:], state.workers)
    smaller, real = Stacked(2), strategy.draw(batches, 2, 2)
    task = trees.row(rows.runners.mail, 0)
    _, labels = strategy.task_inputs(context, task.key)
    assert torch.equal(labels, task.labels)
    after, metrics = strategy.round(context, smaller, state._replace(workers=rows), real, 2)
    assert metrics["turns"].sum() == 4 and after.server.updates == 6 + 4


def test_a_race_begins_again_if_all_busy_workers_were_lost():
    strategy, context, engine, batches = make(3, steps=2, busy_workers=1, speeds=(1.0,))
    state, _ = train(strategy, context, engine, batches)
    idle = torch.full_like(state.workers.runners.clock, torch.inf)
    workers = state.workers._replace(runners=state.workers.runners._replace(clock=idle))
    real = strategy.draw(batches, 2, 2)
    _, metrics = strategy.round(context, engine, state._replace(workers=workers), real, 2)
    assert metrics["turns"].tolist() == [2, 2, 2]


@pytest.mark.parametrize("ids", [[1, 2, 3], [0, 1, 2, 3, 0, 1]])
def test_the_number_of_busy_workers_stays_if_workers_leave_or_join(ids):
    strategy, context, engine, batches = make(4, steps=2, busy_workers=2, speeds=(1.0,))
    state, _ = train(strategy, context, engine, batches)
    workers = trees.map(lambda leaf: leaf[ids], state.workers)
    *_, batches = make(len(ids), steps=2)
    engine, real = Stacked(len(ids)), strategy.draw(batches, 2, 2)
    after, _ = strategy.round(context, engine, state._replace(workers=workers), real, 2)
    assert (after.workers.runners.clock < torch.inf).sum() == 2


def test_settings_are_those_of_the_paper():
    assert AsyncMDGAN(swap_every=3, batch_size=7).paper == MDGAN(swap_every=3, batch_size=7)
