"""One pass over real images and fakes equals two passes, with and without a compiler."""

import pytest
import torch
from torch import nn

from remuda.gan import GAN, LOSSES, Adam, players
from remuda.networks import MLP, NETWORKS, layers
from remuda.networks.batches import for_batches
from remuda.tensors import calculus, trees
from tests.networks.small import shrink_acgans, small, without_zeros

VARIANTS = {  # further settings that change the layers
    "conditional dcgan": ("dcgan", dict(conditional=True)),
    "batch norm and channel means": ("acgan-mnist", dict(batch_norm="both")),
    "learned kernels": ("acgan-mnist", dict(minibatch_kernels=3, minibatch_dims=2)),
    "unconditional resnet": ("resnet", dict(conditional=False)),
}
# Spectral normalisation cannot divide R3GAN's weights, because some of them start at 0.
DIVISIBLE = [name for name in NETWORKS if name != "r3gan"]
LABELS, FAKE_LABELS = torch.tensor([0, 1, 2, 0]), torch.tensor([2, 2, 1, 0])
KEY = torch.tensor(11)
AUGMENTATION = dict(shift=0.25, cutout=0.5, colour=1.0)
ADAPTIVE = dict(ada_target=0.5, ada_images=16.0, **AUGMENTATION)
PENALTIES = dict(lipschitz="penalty", r1=0.5, r2=0.25)


@pytest.fixture(autouse=True)
def small_acgans(monkeypatch):
    shrink_acgans(monkeypatch)


def make(name, loss="non-saturating", **options):
    name, settings = VARIANTS.get(name, (name, {}))
    return GAN(
        networks=small(name, **settings),
        shape=(1, 8, 8),
        num_classes=3,
        loss=LOSSES[loss],
        generator_optimizer=Adam(1e-2, 0.0, 0.9, 1e-2),
        discriminator_optimizer=Adam(1e-2, 0.0, 0.9, 1e-2),
        **options,
    )


def images(*shape, dtype=torch.float64):
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype)


def wide(tree):
    return trees.map(lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, tree)


def started(gan, key):
    """Return a pair in double precision whose parameters all have gradients."""
    players = [player._replace(params=without_zeros(player.params)) for player in gan.init(key)[:2]]
    pair = wide(gan.init(key)._replace(generator=players[0], discriminator=players[1]))
    if gan.ada_target:
        pair.discriminator.buffers["ada_probability"].fill_(0.5)
    return pair


def assert_close(found, expected, tolerance):
    for (name, a), (_, b) in zip(*map(trees.named_leaves, (found, expected)), strict=True):
        limit = (
            tolerance * b.double().norm() + 1e-9
        )  # gradients may be small, or 0 but for rounding
        assert (a.double() - b.double()).norm() <= limit, name


def lipschitz_for(loss):
    return "penalty" if LOSSES[loss].needs_lipschitz else "none"


@pytest.mark.parametrize(
    "name, options",
    [
        *((name, {}) for name in (*NETWORKS, *VARIANTS)),
        *((name, dict(**PENALTIES, **AUGMENTATION)) for name in (*NETWORKS, *VARIANTS)),
        *(("dcgan", dict(loss=loss, lipschitz=lipschitz_for(loss))) for loss in LOSSES),
        ("dcgan", dict(loss="wasserstein", lipschitz="clip", **AUGMENTATION)),
        ("mlp", dict(loss="hinge", **ADAPTIVE)),
    ],
    ids=str,
)
def test_one_pass_equals_two(name, options, monkeypatch):
    gan = make(name, **options)
    player = started(gan, 7).discriminator
    arguments = images(4, 1, 8, 8), images(4, 1, 8, 8).flip(0) - 0.5, LABELS, KEY, FAKE_LABELS
    two = gan.update_discriminator(player, *arguments)
    calls = []
    assert gan.joint is not None
    forward = gan.joint.register_forward_hook(lambda *_: calls.append("joint"))
    monkeypatch.setattr(players, "_joins", lambda joint, device: True)
    one = gan.update_discriminator(player, *arguments)
    forward.remove()
    is_paired = gan.r1 > 0 and gan.r2 > 0  # one more pass computes both penalties
    assert calls == ["joint"] * (1 + is_paired)
    for key in (name for name, buffer in player.buffers.items() if not buffer.is_floating_point()):
        assert one[0].buffers[key].equal(two[0].buffers[key])
        assert not one[0].buffers[key].equal(player.buffers[key])
    assert_close(one, two, 1e-6)  # losses are computed in single precision


def test_batches_of_different_sizes_take_two_passes(monkeypatch):
    gan = make("dcgan")
    player, real, fakes = gan.init(7).discriminator, images(4, 1, 8, 8), images(2, 1, 8, 8)
    arguments = real.float(), fakes.float(), LABELS, KEY, FAKE_LABELS[:2]
    expected = gan.update_discriminator(player, *arguments)
    monkeypatch.setattr(players, "_joins", lambda joint, device: True)
    assert trees.equal(gan.update_discriminator(player, *arguments), expected)


class OwnNorm(nn.Module):
    """A user's layer, which depends on the batch."""

    def forward(self, x):
        return x - x.mean(0)


class OwnDiscriminator(type(MLP().discriminator((1, 8, 8), 0))):
    """A user's subclass, which may add layers."""


@pytest.mark.parametrize("layer", [OwnNorm(), nn.BatchNorm1d(4), nn.Dropout()])
def test_unknown_layers_take_two_passes(layer):
    assert for_batches(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), 2) is not None
    assert for_batches(nn.Sequential(nn.Linear(3, 4), layer), 2) is None


def test_subclasses_take_two_passes():
    known = MLP().discriminator((1, 8, 8), 0)
    joint = for_batches(known, 2)
    assert joint is not None and joint.num_batches == 2 and known.num_batches == 1
    assert for_batches(OwnDiscriminator(known.layers, 0), 2) is None


@pytest.mark.parametrize("augmentation", [{}, AUGMENTATION], ids=str)
def test_an_update_runs_one_power_iteration(augmentation):
    """So it needs a single pass, on every device."""
    gan = make("dcgan", "hinge", lipschitz="spectral", **augmentation)
    player, real = gan.init(7).discriminator, images(4, 1, 8, 8, dtype=torch.float32)
    name = next(name for name in player.buffers if name.endswith("left_output_weight"))
    matrix = player.params[name.replace("left_output_weight", "network.output.weight")]
    improved = matrix @ (matrix.T @ player.buffers[name])
    after, _ = gan.update_discriminator(player, real, -real, LABELS, KEY)
    torch.testing.assert_close(after.buffers[name], improved / improved.norm())


@pytest.mark.parametrize("options", [dict(lipschitz="spectral"), AUGMENTATION], ids=str)
def test_penalties_use_the_state_after_the_passes_of_the_loss(options):
    """They draw new changes of the images, and divide by the improved singular values."""
    gan = make("wcgan", "hinge", r1=1e4, **options)
    player, real = gan.init(7).discriminator, images(4, 1, 8, 8, dtype=torch.float32)
    batches = (real, LABELS), (-real, LABELS)
    _, after, loss = gan.discriminator_gradients(player, *batches, KEY)
    without = make("wcgan", "hinge", **options)
    _, same, rest = without.discriminator_gradients(player, *batches, KEY)
    assert trees.equal(after, same)  # penalties change no buffers
    found = [
        gan.objective.penalties(gan.critic(player.params, buffers), *batches, KEY)
        for buffers in (after, player.buffers)
    ]
    torch.testing.assert_close(loss - rest, found[0].detach(), rtol=1e-3, atol=0.0)
    assert (found[1] / found[0] - 1).abs() > 0.01


@pytest.mark.parametrize(
    "name, options",
    [
        *((name, dict(loss="relativistic", **PENALTIES)) for name in (*NETWORKS, *VARIANTS)),
        *((name, dict(loss="hinge", lipschitz="spectral-both")) for name in DIVISIBLE),
        *(("wcgan", dict(loss=loss, **PENALTIES)) for loss in LOSSES),
        *(("wcgan", dict(loss=loss, lipschitz=lipschitz_for(loss))) for loss in LOSSES),
        ("wcgan", dict(loss="relativistic", r1=0.5, r2=0.25, penalty_every=3, **AUGMENTATION)),
        ("resnet", dict(loss="hinge", lipschitz="spectral", **AUGMENTATION)),
        ("mlp", dict(loss="wasserstein", lipschitz="penalty", **ADAPTIVE)),
    ],
    ids=str,
)
def test_a_compiled_step_equals_the_plain_one(name, options, monkeypatch):
    """Compiled code uses one pass, channels last and own operators, and draws the same masks."""
    gan = make(name, **options)
    pairs = trees.stack([started(gan, 7), started(gan, 8)])
    real, noise = images(2, 1, 4, 1, 8, 8), images(2, 1, 4, 5)
    labels, keys = torch.stack([LABELS, FAKE_LABELS])[:, None], torch.tensor([[1], [2]])
    arguments = pairs, real, labels, noise, keys
    expected = [gan.step(*trees.row(arguments, i)) for i in range(2)]
    monkeypatch.setattr(layers, "is_compiled", lambda: True)
    monkeypatch.setattr(players, "_joins", lambda joint, device: True)
    found = calculus.stacked(gan.step)(*arguments)
    for i in range(2):
        assert_close(trees.row(found, i), expected[i], 1e-5)
