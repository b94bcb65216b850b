"""Check a family of networks on a tiny herd of independent pairs."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from remuda.config import from_dict, override
from remuda.errors import UserError
from remuda.experiments.checks.outcome import Outcome, Promise, problem_of, run_all
from remuda.experiments.checks.trial import Trial
from remuda.gan import GAN, Pair
from remuda.tensors import calculus, random, trees

# Shapes that many data sets have; a family may support only some of them.
COMMON_SHAPES = ((1, 28, 28), (3, 32, 32))
BATCH = 4
TOLERANCE = 1e-3  # of the largest gradient, between loop and vmap


def check_networks(name: str, settings: Sequence[str]) -> Iterator[Outcome]:
    """Yield the outcome of every check of the networks with this name."""
    values: dict[str, Any] = {
        "networks": {"name": name},
        "strategy": {"name": "class-parallel"},
        "run": {"members": 3},
    }
    config = from_dict(override(values, list(settings)))
    title = "layers, random operations and shapes keep the contract"
    try:
        trial = Trial(config)
    except Exception as error:
        yield Outcome(title, problem_of(error))
        return
    gan = trial.herd.context.gan
    yield Outcome(f"{title} for images of {_size(gan.shape)}")
    yield from run_all(trial.promises())
    stacking = gan.stacking
    if stacking.problem:
        remedy = "use engine.layout=loop, and no cellular strategy"
        problem = f"vmap cannot stack them ({stacking.problem}): {remedy}"
        yield Outcome("stacking of all members", problem, is_fatal=False)
    else:
        if slow := stacking.explain_slow():
            yield Outcome("stacking of all members", slow, is_fatal=False)
        yield from run_all(_stacked_promises(gan))
    for shape in COMMON_SHAPES:
        if shape != gan.shape:
            yield _builds(trial, shape)


def _stacked_promises(gan: GAN) -> list[Promise]:
    pairs = [gan.init(key) for key in range(2)]
    return [
        ("gradients in a loop and under vmap agree up to rounding", partial(_agree, gan, pairs)),
        ("members do not influence each other", partial(_independent, gan, pairs)),
    ]


def _agree(gan: GAN, pairs: list[Pair]) -> str:
    looped = trees.stack([_gradients(gan, pair) for pair in pairs])
    return _compare(looped, _stacked(gan, pairs), "differs between loop and vmap")


def _independent(gan: GAN, pairs: list[Pair]) -> str:
    first = trees.row(_stacked(gan, pairs), 0)
    other = trees.map(lambda leaf: leaf * 2 if leaf.is_floating_point() else leaf, pairs[1])
    return _compare(
        first, trees.row(_stacked(gan, [pairs[0], other]), 0), "depends on another member's weights"
    )


def _stacked(gan: GAN, pairs: list[Pair]) -> Any:
    return calculus.stacked(partial(_gradients, gan))(trees.stack(pairs))


def _gradients(gan: GAN, pair: Pair) -> dict[str, dict[str, Tensor]]:
    """Return the gradients and the new buffers of both networks of a pair, for a fixed batch."""
    key = torch.tensor(random.key(0, "check"))
    labels = torch.arange(BATCH) % max(1, gan.num_classes)
    real = random.uniform(key, (BATCH, *gan.shape)) * 2 - 1
    noise = random.normal(key, (BATCH, gan.networks.latent))
    fakes, buffers, pull = gan.generate(pair.generator, noise, labels)
    batches = (real, labels), (fakes, labels)
    gradients, own_buffers, _ = gan.discriminator_gradients(pair.discriminator, *batches, key)
    _, feedback, _ = gan.feedback(pair.discriminator, fakes, labels, real=(real, labels))
    return {
        "generator": pull(feedback),
        "generator buffer": buffers,
        "discriminator": gradients,
        "discriminator buffer": own_buffers,
    }


def _compare(one: Any, other: Any, verdict: str) -> str:
    largest = max(float(leaf.abs().max()) for leaf in trees.leaves(one["generator"]))
    for (name, a), (_, b) in zip(trees.named_leaves(one), trees.named_leaves(other), strict=True):
        a, b = a.double(), b.double()  # buffers may be Booleans
        limit = TOLERANCE * max(largest, float(a.abs().max()))
        if (a - b).abs().max() > limit:
            return f"the gradient or buffer {name.replace('/', ' ')} {verdict}"
    return ""


def _builds(trial: Trial, shape: tuple[int, ...]) -> Outcome:
    title, gan = f"other images: {_size(shape)}", trial.herd.context.gan
    try:
        trial.config.strategy.build_gan(gan.networks, shape, gan.num_classes)
    except UserError as error:
        return Outcome(title, str(error), is_fatal=False)
    return Outcome(title)


def _size(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
