"""Compiled training steps give the gradients of eager ones, for every network and every loss.

tests/gan/test_passes.py compares the same computations in seconds, without a compiler. On a GPU the
sizes are those of CIFAR-10: padded strides once gave wrong gradients there.
"""

import pytest
import torch

from remuda.data.batches import Batch
from remuda.engines import Stacked
from remuda.gan import LOSSES, Pair
from remuda.networks import NETWORKS
from remuda.strategies import ClassParallel
from tests.engines.test_programs import DEVICE, LONG_ON_A_CPU
from tests.networks.small import small, without_zeros

MEMBERS, BATCH, SHAPE, TOLERANCE = 2, 3, (3, 8, 8), 1e-3  # of a gradient's norm
LARGER = {}  # settings of networks
if DEVICE == "cuda":
    MEMBERS, BATCH, SHAPE, TOLERANCE = 4, 32, (3, 32, 32), 0.02
    LARGER = {
        "dcgan": dict(width=64),
        "wcgan": dict(width=64, critic_width=64),
        "r3gan": dict(width=64, group_width=16),
        "resnet": dict(width=64, discriminator_width=64),
        "sagan": dict(width=64, discriminator_width=64, attention_size=16),
    }
SHARED = dict(shared_generator=("input", "body"), shared_discriminator=("input", "body"))
FAMILIES = dict(families=((0, 1),), family_discriminator=("head",))
AUGMENTATION = dict(shift=0.125, cutout=0.5, colour=1.0)


@LONG_ON_A_CPU
@pytest.mark.parametrize(
    "name, options",
    [
        *((name, dict(loss="relativistic", r1=0.5, r2=0.5)) for name in NETWORKS),
        *(("mlp", dict(loss=loss)) for loss in LOSSES),
        ("dcgan", dict(loss="non-saturating")),
        ("wcgan", dict(loss="wasserstein", **AUGMENTATION)),
        ("r3gan", dict(loss="wasserstein", **AUGMENTATION)),
        ("resnet", dict(loss="hinge", lipschitz="spectral", **AUGMENTATION)),
        ("resnet", dict(loss="hinge", r1=0.5)),
        ("sagan", dict(loss="hinge", lipschitz="spectral-both")),
        ("resnet", dict(loss="hinge", lipschitz="spectral", discriminator_steps=2, **SHARED)),
        ("r3gan", dict(loss="relativistic", r1=0.5, **SHARED, **FAMILIES)),
    ],
    ids=lambda case: case if isinstance(case, str) else "-".join(map(str, case.values())),
)
def test_a_compiled_step_equals_the_eager_one(name, options):
    steps = (gradients(name, options, compile) for compile in (True, False))
    for compiled, eager in zip(*steps, strict=True):
        assert_close(compiled, eager)


def assert_close(compiled, eager):
    """Compare one player's gradients, or the losses.

    Biases before a BatchNorm have gradients of 0 but for rounding, and so has the last bias of
    the discriminator in a loss of differences. The size of the rounding depends on all gradients.
    """
    rounding = 1e-5 * torch.stack([leaf.norm() for leaf in eager.values()]).norm()
    for name, expected in eager.items():
        limit = TOLERANCE * expected.norm() + rounding
        assert (compiled[name] - expected).norm() <= limit, name


def gradients(name, options, compile):
    """Return the gradients and losses of both players in one step of every member."""
    # With beta1 = 0, Adam's first moments are the gradients themselves. A gradient that is 0 but
    # for rounding changes its parameter by up to the learning rate, so that is low.
    adam = dict(discriminator_lr=1e-6, discriminator_betas=(0.0, 0.9), generator_betas=(0.0, 0.9))
    strategy = ClassParallel(batch_size=BATCH, **adam, **options)
    networks = small(name, **LARGER.get(name, {}))
    context = strategy.prepare(networks, SHAPE, MEMBERS, seed=0)
    random = torch.Generator().manual_seed(0)
    num_batches = strategy.discriminator_steps
    size = MEMBERS, num_batches, BATCH, *SHAPE
    pixels = torch.randint(0, 256, size, dtype=torch.uint8, generator=random).to(DEVICE)
    labels = torch.arange(MEMBERS, device=DEVICE)[:, None, None]
    labels = labels.expand(MEMBERS, num_batches, BATCH)
    engine = Stacked(MEMBERS, DEVICE, "vmap", compile=compile, precision="fp32")
    start = strategy.init(context, engine)
    state, losses = strategy.round(context, engine, nonzero(start), Batch(pixels, labels), 1)
    return *first_moments(state), losses


def nonzero(state):
    """Return a state, a pair or shared pairs, whose parameters are not 0."""
    if not isinstance(state, Pair):
        return type(state)(*map(nonzero, state))
    players = (player._replace(params=without_zeros(player.params)) for player in state[:2])
    return Pair(*players, state.average)


def first_moments(state):
    """Return Adam's first moments of all players."""
    if not isinstance(state, Pair):
        return [moments for part in state for moments in first_moments(part)]
    return [state.discriminator.moments.first, state.generator.moments.first]
