"""Losses on numbers worked out by hand."""

import math

import pytest
import torch

from remuda.gan import LOSSES
from remuda.gan.losses import class_loss, gradient_penalty, mean_squared_norm

LOG3 = math.log(3.0)  # sigmoid(log 3) = 3/4
REAL, FAKE = torch.tensor([LOG3, 0.0]), torch.tensor([-LOG3, LOG3])  # D = 3/4, 1/2 and 1/4, 3/4


def value(name, player, *arguments):
    return getattr(LOSSES[name], player)(*arguments).item()


def test_cross_entropy_is_equation_3():
    expected = (
        -0.5 * (math.log(0.75) + math.log(0.5)) / 2 - 0.5 * (math.log(0.75) + math.log(0.25)) / 2
    )
    assert value("non-saturating", "discriminator", REAL, FAKE, 1.0) == pytest.approx(expected)
    assert value("minimax", "discriminator", REAL, FAKE, 1.0) == pytest.approx(expected)


def test_non_saturating_is_equation_4_negated():
    assert value("non-saturating", "generator", FAKE) == pytest.approx(
        -0.5 * (math.log(0.25) + math.log(0.75)) / 2
    )


def test_minimax_generator_minimises_log_of_one_minus_d():
    assert value("minimax", "generator", FAKE) == pytest.approx(
        0.5 * (math.log(0.75) + math.log(0.25)) / 2
    )


def test_smoothing_mixes_both_targets_on_real_images():
    on_real = (
        -(0.9 * math.log(0.75) + 0.1 * math.log(0.25) + 0.9 * math.log(0.5) + 0.1 * math.log(0.5))
        / 2
    )
    on_fake = -(math.log(0.75) + math.log(0.25)) / 2
    assert value("non-saturating", "discriminator", REAL, FAKE, 0.9) == pytest.approx(
        0.5 * on_real + 0.5 * on_fake
    )


def test_the_others_by_hand():
    real, fake = torch.tensor([2.0, 0.0]), torch.tensor([-3.0, 0.5])
    assert value("least-squares", "discriminator", real, fake, 1.0) == pytest.approx(
        0.5 * 1.0 + 0.5 * 9.25 / 2
    )
    assert value("least-squares", "discriminator", real, fake, 0.5) == pytest.approx(
        0.5 * 1.25 + 0.5 * 9.25 / 2
    )
    assert value("least-squares", "generator", fake) == pytest.approx(0.5 * (16 + 0.25) / 2)
    assert value("wasserstein", "discriminator", real, fake, 1.0) == pytest.approx(-1.25 - 1.0)
    assert value("wasserstein", "generator", fake) == pytest.approx(1.25)
    assert value("hinge", "discriminator", real, fake, 1.0) == pytest.approx(0.5 + 0.75)
    assert value("hinge", "generator", fake) == pytest.approx(1.25)


def test_relativistic_compares_image_i_with_image_i():
    real, fake = torch.tensor([LOG3, 1.0]), torch.tensor([0.0, 1.0])  # differences log 3 and 0
    on_real = -(math.log(3 / 4) + math.log(1 / 2)) / 2
    on_fake = -(math.log(1 / 4) + math.log(1 / 2)) / 2
    assert value("relativistic", "discriminator", real, fake, 1.0) == pytest.approx(on_real)
    assert value("relativistic", "generator", fake, real) == pytest.approx(on_fake)
    assert value("relativistic", "discriminator", real, fake.flip(0), 1.0) != pytest.approx(on_real)
    assert [name for name, loss in LOSSES.items() if loss.pairs] == ["relativistic"]


@pytest.mark.parametrize("name", LOSSES)
def test_far_outputs_stay_finite(name):
    far = torch.tensor([1e4, -1e4])
    assert math.isfinite(value(name, "discriminator", far, far, 1.0))
    assert math.isfinite(value(name, "generator", far, *[-far] * LOSSES[name].pairs))


@pytest.mark.parametrize("name", LOSSES)
def test_players_pull_in_opposite_directions(name):
    fake = torch.zeros(3, requires_grad=True)
    real = [torch.zeros(3)] * LOSSES[name].pairs
    (by_generator,) = torch.autograd.grad(LOSSES[name].generator(fake, *real), fake)
    (by_discriminator,) = torch.autograd.grad(
        LOSSES[name].discriminator(torch.zeros(3), fake + 0.1, 1.0), fake
    )
    assert (by_generator < 0).all() and (by_discriminator > 0).all()


@pytest.mark.parametrize("name", LOSSES)
def test_a_constant_cancels_if_only_differences_have_a_meaning(name):
    """So the discriminator's last bias has no gradient but rounding, which Adam amplifies."""
    loss, constant = LOSSES[name], torch.tensor(0.25, dtype=torch.float64, requires_grad=True)
    real, fake = REAL.double() + constant, FAKE.double() + constant
    values = [loss.discriminator(real, fake, 1.0)]
    values += [loss.generator(fake, real)] if loss.pairs else []
    for value in values:
        (gradient,) = torch.autograd.grad(value, constant, retain_graph=True)
        assert (gradient.abs() < 1e-15) == (loss.boundary is None)


def test_class_loss_is_half_the_cross_entropy():
    logits = torch.tensor(
        [[LOG3, 0.0, -1e4], [0.0, 0.0, 0.0], [0.0, 1e4, 0.0]]
    )  # P = 3/4, 1/4, 0; thirds; 0, 1, 0
    labels = torch.tensor([0, 2, 1])
    expected = -0.5 * (math.log(3 / 4) + math.log(1 / 3) + math.log(1)) / 3
    assert class_loss(logits, labels).item() == pytest.approx(expected)
    assert class_loss(logits, labels).item() == pytest.approx(
        0.5 * torch.nn.functional.cross_entropy(logits, labels).item()
    )
    together = torch.func.vmap(class_loss)(
        torch.stack([logits, -logits]), torch.stack([labels, labels])
    )
    assert torch.allclose(
        together, torch.stack([class_loss(logits, labels), class_loss(-logits, labels)])
    )


def test_gradient_penalty_by_hand():
    gradients = torch.tensor([[[[3.0, 4.0]]], [[[0.0, 1.0]]]])  # norms 5 and 1
    assert gradient_penalty(gradients).item() == pytest.approx((16 + 0) / 2)
    assert mean_squared_norm(gradients).item() == pytest.approx((25 + 1) / 2)
    zero = torch.zeros(1, 1, 1, 2, requires_grad=True)
    assert torch.autograd.grad(gradient_penalty(zero), zero)[0].isfinite().all()
