"""Augmentation whose probability adapts to the discriminator."""

import numpy as np
import pytest
import torch
from torch import nn

from remuda.gan import GAN, LOSSES, Adam
from remuda.gan.augment import Augmented, adapted, cut, recoloured, shifted
from remuda.gan.objective import Objective
from remuda.gan.players import apply
from remuda.networks import ACGANMLP, MLP
from remuda.tensors import random

LABELS = torch.zeros(4, dtype=torch.int64)


def test_the_probability_by_hand():
    """Of 4 images, 3 are taken for real: the mean of the signs is 0.5."""
    signs, buffers = torch.tensor([1.0, 1.0, -1.0, 1.0]), {"key": torch.tensor(7)}

    def after(probability, target, num_images=100.0):
        before = buffers | {"ada_probability": torch.tensor(probability)}
        found = adapted(before, signs, target, num_images)
        assert found["key"] is buffers["key"]
        return found["ada_probability"].item()

    assert after(0.5, target=0.4) == pytest.approx(0.54)
    assert after(0.5, target=0.6) == pytest.approx(0.46)
    assert after(0.5, target=0.5) == 0.5
    assert after(0.98, target=0.4) == 1.0
    assert after(0.02, target=0.6) == 0.0
    assert after(0.5, target=0.4, num_images=500_000) == pytest.approx(0.5 + 8e-6, abs=1e-7)


@pytest.mark.parametrize(
    "loss, expected",
    [
        ("non-saturating", [1, 1, -1, 0]),
        ("minimax", [1, 1, -1, 0]),
        ("hinge", [1, 1, -1, 0]),
        ("least-squares", [1, -1, -1, -1]),  # targets are 1 and 0
        ("wasserstein", [-1, 1, 1, 1]),  # a critic's zero has no meaning
        ("relativistic", [-1, 1, 1, 1]),
    ],
)
def test_signs_by_hand(loss, expected):
    on_real, on_fakes = torch.tensor([2.0, 0.3, -3.0, 0.0]), torch.tensor([2.5, 0.0, -4.0, -1.0])
    objective = Objective(loss=LOSSES[loss])
    assert objective.signs(on_real, on_fakes).tolist() == expected
    with_classes = [
        torch.stack([outputs, torch.full((4,), 9.0)], 1) for outputs in (on_real, on_fakes)
    ]
    objective = Objective(loss=LOSSES[loss], auxiliary=True)
    assert objective.signs(*with_classes).tolist() == expected


def augment(probability, images, key=5, **options):
    options = dict(shift=0.25, cutout=0.5, colour=1.0) | options
    module = Augmented(nn.Identity(), **options)
    module.key.copy_(torch.as_tensor(key))
    if probability is not None:
        module.ada_probability.copy_(torch.as_tensor(probability))
    return module.augment(images)


IMAGES = torch.rand(300, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def test_a_probability_of_0_changes_nothing_and_1_changes_all():
    assert augment(0.0, IMAGES, is_adaptive=True).equal(IMAGES)
    assert augment(1.0, IMAGES, is_adaptive=True).equal(augment(None, IMAGES))


def test_each_change_has_its_own_chance():
    """Apply each change by hand to the images whose draw is below the probability."""
    found = augment(0.3, IMAGES, is_adaptive=True).numpy()
    draws = random.uniform(torch.tensor(5), (12, len(IMAGES)))
    is_applied = (draws[7:] < 0.3).numpy()
    assert 0.2 < is_applied.mean() < 0.4 and np.abs(np.corrcoef(is_applied) - np.eye(5)).max() < 0.2
    for image, draw, (moves, cuts, *tints), result in zip(
        IMAGES, draws.T, is_applied.T, found, strict=True
    ):
        image = image[None]
        for number, tinted in enumerate(tints):
            if tinted:
                colour = torch.full((3, 1), 0.5)
                colour[number] = draw[4 + number]
                image = recoloured(image, colour, 1.0)
        if moves:
            image = shifted(image, draw[:2, None], 0.25)
        if cuts:
            image = cut(image, draw[2:4, None], 0.5)
        assert np.abs(image[0].numpy() - result).max() < 1e-6


@pytest.mark.parametrize("part", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("side", [1, 2, 7, 8])
def test_rectangles_outside_the_image_cut_nothing(side, part):
    ones = torch.ones(1, 1, side, side)
    assert cut(ones, torch.full((2, 1), 2.0), part).equal(ones)


def test_members_in_a_stack_have_their_own_probabilities():
    module = Augmented(nn.Identity(), 0.25, 0.5, 1.0, is_adaptive=True)
    module.network.forward = lambda images, labels: images
    keys, chances = torch.tensor([3, 4, 5]), torch.tensor([0.0, 0.5, 1.0])
    images = IMAGES[:12].unflatten(0, (3, 4))

    def changed(key, chance, images):
        return apply(module, {}, {"key": key, "ada_probability": chance}, images, LABELS)[0]

    stacked = torch.func.vmap(changed)(keys, chances, images)
    for i in range(3):
        assert torch.allclose(stacked[i], changed(keys[i], chances[i], images[i]), atol=1e-6)
    assert stacked[0].equal(images[0]) and not stacked[2].isclose(images[2]).all()


@pytest.mark.parametrize("loss", ["hinge", "wasserstein"])
@pytest.mark.parametrize("networks", [MLP(latent=3, hidden=4), ACGANMLP(latent=3, hidden=4)])
def test_updates_of_a_discriminator_move_the_probability(networks, loss):
    """The probability follows the outputs that the update itself computes."""
    gan = GAN(
        networks=networks,
        shape=(1, 4, 4),
        num_classes=2,
        loss=LOSSES[loss],
        generator_optimizer=Adam(1e-2, 0.0, 0.9),
        discriminator_optimizer=Adam(3e-2, 0.0, 0.9),
        lipschitz="penalty",
        colour=1.0,
        ada_target=0.25,
        ada_images=32.0,
    )
    player = gan.init(7).discriminator
    assert player.metrics()["augmentation"].item() == 0.0
    chances, expected = [0.0], [0.0]
    for k in range(12):
        real, fakes = IMAGES[4 * k : 4 * k + 4, :2, :4, :4].split(1, 1)
        on_real, buffers = apply(gan.discriminator, player.params, player.buffers, real, LABELS)
        on_fakes, _ = apply(gan.discriminator, player.params, buffers, -fakes, LABELS)
        if networks.auxiliary:
            on_real, on_fakes = on_real[:, 0], on_fakes[:, 0]
        num_right = (on_real > (0 if loss == "hinge" else on_fakes)).sum().item()
        step = 4 / 32 if num_right > 2 else -4 / 32  # the mean sign is num_right / 2 - 1
        expected.append(min(1.0, max(0.0, expected[-1] + step)))
        player, _ = gan.update_discriminator(player, real, -fakes, LABELS, torch.tensor(k))
        chances.append(player.metrics()["augmentation"].item())
    assert chances == expected and max(chances) > 0.0
    assert player.buffers["ada_probability"].dtype == torch.float32
