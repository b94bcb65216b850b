"""Schedules: their values on numbers chosen by hand, and next to PyTorch's own schedulers."""

import math

import pytest
import torch

from remuda.gan.schedules import Schedule, decay


def values(t, num_steps=4, updates_per_step=1, images_per_update=10, **settings):
    found = Schedule(**settings).values(t, num_steps, updates_per_step, images_per_update)
    return {name: value.tolist() for name, value in found.items()}


def test_nothing_is_scheduled_by_default():
    assert values(1) == {}
    assert values(1, annealing="cosine", annealing_rounds=3.0) == {}


def test_a_linear_schedule_by_hand():
    """Two rounds of four steps: an eighth of the way in each step, then the final values."""
    schedule = dict(
        annealing="linear",
        annealing_rounds=2.0,
        final_lr=0.2,
        final_penalty=0.0,
        final_betas=(0, 0.9),
    )
    first, second, third = (values(t, **schedule) for t in (1, 2, 3))
    assert first["lr_factor"] == pytest.approx([1.0, 0.9, 0.8, 0.7])
    assert second["lr_factor"] == pytest.approx([0.6, 0.5, 0.4, 0.3])
    assert third["lr_factor"] == pytest.approx([0.2] * 4)
    assert second["penalty_factor"] == pytest.approx([0.5, 0.375, 0.25, 0.125])
    for player in ("generator_betas", "discriminator_betas"):
        assert second[player][0] == pytest.approx([0.25, 0.9495])
        assert third[player] == [pytest.approx([0, 0.9])] * 4


def test_players_with_different_betas_meet():
    schedule = dict(
        annealing="linear",
        annealing_rounds=1.0,
        generator_betas=(0.0, 0.9),
        discriminator_betas=(0.8, 0.5),
        final_betas=(0.4, 0.7),
    )
    halfway = {name: value[2] for name, value in values(1, **schedule).items()}
    assert halfway == {
        "generator_betas": pytest.approx([0.2, 0.8]),
        "discriminator_betas": pytest.approx([0.6, 0.6]),
    }


def test_warm_up_multiplies_the_learning_rate():
    warm_up = dict(warmup_rounds=1.5)
    assert values(1, num_steps=2, **warm_up) == {"lr_factor": pytest.approx([0, 1 / 3])}
    assert values(2, num_steps=2, **warm_up) == {"lr_factor": pytest.approx([2 / 3, 1])}
    assert values(9, num_steps=2, **warm_up) == {"lr_factor": [1, 1]}
    both = values(2, num_steps=2, annealing="linear", annealing_rounds=2.0, final_lr=0.0, **warm_up)
    assert both["lr_factor"] == pytest.approx([2 / 3 * 0.5, 0.25])


@pytest.mark.parametrize("annealing", ["linear", "cosine"])
def test_the_shapes_are_those_of_pytorch(annealing):
    """Three rounds of five steps, annealed over 2.4 rounds, which are twelve steps."""
    optimizer = torch.optim.SGD([torch.zeros((), requires_grad=True)], lr=1.0)
    schedulers = torch.optim.lr_scheduler
    if annealing == "linear":
        scheduler = schedulers.LinearLR(optimizer, 1.0, 0.1, total_iters=12)
    else:
        scheduler = schedulers.CosineAnnealingLR(optimizer, T_max=12, eta_min=0.1)
    expected = []
    for _ in range(12):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    schedule = dict(annealing=annealing, annealing_rounds=2.4, final_lr=0.1)
    found = [value for t in (1, 2, 3) for value in values(t, 5, **schedule)["lr_factor"]]
    assert found == pytest.approx([*expected, 0.1, 0.1, 0.1], rel=1e-5)


def test_a_position_does_not_depend_on_the_number_of_steps():
    """The round decides, so another batch size does not stretch a schedule."""
    schedule = dict(annealing="cosine", annealing_rounds=7.0, final_lr=0.0)
    few, many = (values(5, steps, **schedule)["lr_factor"] for steps in (2, 6))
    assert few == pytest.approx([many[0], many[3]])


def test_half_lives_in_images():
    """After as many images as the half-life, an old weight still counts one half."""
    (weights,) = values(1, num_steps=8, images_per_update=10, ema_images=80.0).values()
    assert math.prod(1 - weight for weight in weights) == pytest.approx(0.5)
    assert 1 - weights[0] == pytest.approx(decay(10, 80.0))
    (pairs,) = values(1, num_steps=4, images_per_update=20, ema_images=80.0).values()
    assert math.prod(1 - weight for weight in pairs) == pytest.approx(0.5)


def test_the_ramp_up_limits_the_half_life():
    """At first the average is the generator; 40 images later, the half-life is 20 images."""
    settings = dict(ema_images=50.0, ema_rampup=0.5, images_per_update=10)
    first = values(1, num_steps=4, **settings)["ema_weight"]
    assert first == pytest.approx([1.0, 1 - 0.5 ** (10 / 5), 0.5, 1 - 0.5 ** (10 / 15)])
    second = values(2, num_steps=4, **settings)["ema_weight"]
    assert second[0] == pytest.approx(1 - 0.5 ** (10 / 20))
    assert values(9, num_steps=4, **settings)["ema_weight"] == [pytest.approx(1 - 0.5**0.2)] * 4
    # Turns with two updates of the generator make twice as many images.
    turns = values(1, num_steps=4, updates_per_step=2, **settings)["ema_weight"]
    assert turns[1] == pytest.approx(1 - 0.5 ** (10 / 10))


def test_slow_averages_keep_their_digits():
    """In float32, 1 - decay would lose half of its digits."""
    (weights,) = values(1, images_per_update=64, ema_images=5e7).values()
    assert weights[0] == pytest.approx(64 * math.log(2) / 5e7, rel=1e-5)
