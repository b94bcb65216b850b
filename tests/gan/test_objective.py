"""Losses and penalties of an objective, on numbers worked out by hand."""

import math

import pytest
import torch
from torch.nn.functional import softplus

from remuda.gan import LOSSES
from remuda.gan.objective import Objective
from remuda.tensors import random

KEY = torch.tensor(5)
# Two images of two pixels. The critic below has the gradient w * (x1, 2 x2).
REAL = torch.tensor([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]]).reshape(3, 1, 1, 2)
FAKES = torch.tensor([[0.0, 1.0], [2.0, 1.0], [1.0, 0.0]]).reshape(3, 1, 1, 2)
LABELS, FAKE_LABELS = torch.tensor([0, 1, 0]), torch.tensor([1, 1, 0])  # class 1 has w = 2
SQUARED = [1 + 16, 4 * 9, 4]  # squared norms of the gradients at real images
SQUARED_OF_FAKES = [4 * 4, 4 * (4 + 4), 1]


def critic(*batches, weight=None):
    """Return w (x1^2 / 2 + x2^2) for every image; w depends on the label."""
    outputs = []
    for images, labels in batches:
        x1, x2 = images.flatten(1).unbind(1)
        w = (1.0 + labels) if weight is None else weight * (1.0 + labels)
        outputs.append(w * (0.5 * x1.square() + x2.square()))
    return tuple(outputs)


def penalties(weights, critic=critic):
    objective = Objective(loss=LOSSES["hinge"], **weights)
    assert objective.has_penalties
    return objective.penalties(critic, (REAL, LABELS), (FAKES, FAKE_LABELS), KEY)


def norms_between(num_images):
    place = random.uniform(random.fold(KEY, 0), (num_images, 1, 1, 1))
    between = (REAL[:num_images] + place * (FAKES - REAL)[:num_images]).flatten(1)
    gradients = (1.0 + LABELS[:num_images])[:, None] * between * torch.tensor([1.0, 2.0])
    return gradients.norm(dim=1)


def test_r1_and_r2_by_hand():
    r1, r2 = 0.5 * 3 * sum(SQUARED) / 3, 0.5 * 7 * sum(SQUARED_OF_FAKES) / 3
    assert penalties(dict(r1=3.0)).item() == pytest.approx(r1)
    assert penalties(dict(r2=7.0)).item() == pytest.approx(r2)
    assert penalties(dict(r1=3.0, r2=7.0)).item() == pytest.approx(r1 + r2)


@pytest.mark.parametrize("every, num_images", [(1, 3), (2, 2), (3, 1)])
def test_one_in_k_images_is_penalised(every, num_images):
    """All penalties are means over the first ceil(3 / k) images, with unchanged weights."""
    expected = 2.0 * (norms_between(num_images) - 1).square().mean().item()
    weights = dict(penalty=2.0, penalty_every=every)
    assert penalties(weights).item() == pytest.approx(expected)
    expected += 0.5 * 3 * sum(SQUARED[:num_images]) / num_images
    expected += 0.5 * 7 * sum(SQUARED_OF_FAKES[:num_images]) / num_images
    assert penalties(dict(r1=3.0, r2=7.0, **weights)).item() == pytest.approx(expected)


def test_penalties_have_gradients():
    """R1 and R2 are quadratic in the critic's weight v, so their derivative at 1 is twice both."""
    for transform in (lambda fn: fn, torch.func.vmap):
        v = torch.ones(1).requires_grad_()
        value = transform(
            lambda v: penalties(dict(r1=3.0, r2=7.0), lambda *b: critic(*b, weight=v))
        )(v).sum()
        (gradient,) = torch.autograd.grad(value, v)
        assert gradient.item() == pytest.approx(2 * value.item())


def test_an_objective_without_weights_has_no_penalties():
    assert not Objective(loss=LOSSES["hinge"], penalty_every=4).has_penalties


def test_classes_change_no_penalty():
    def classifier(*batches):
        """Append the logits of two classes, with large gradients."""
        return tuple(
            torch.cat([source[:, None], 1e3 * images.flatten(1)], 1)
            for source, (images, _) in zip(critic(*batches), batches, strict=True)
        )

    weights = dict(penalty=2.0, r1=3.0, r2=7.0)
    expected = penalties(weights)
    assert torch.equal(penalties(dict(auxiliary=True, **weights), classifier), expected)


def test_the_generator_of_a_pairing_loss_sees_real_outputs():
    objective = Objective(loss=LOSSES["relativistic"], auxiliary=True)
    on_fakes, on_real = torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[3.0, 9.0, 9.0]])
    labels = torch.tensor([0])
    value = objective.generator_loss(on_fakes, labels, on_real)
    assert value.item() == pytest.approx(math.log1p(math.exp(2.0)) + 0.5 * math.log(2.0))
    # A drawn loss is a function of fakes, so it needs no real images.
    assert objective.pairs() and not objective.pairs(softplus)
    drawn = objective.generator_loss(on_fakes, labels, loss=lambda fake: fake.mean())
    assert drawn.item() == pytest.approx(1.0 + 0.5 * math.log(2.0))
    with pytest.raises(AssertionError, match="compares fakes with real images"):
        objective.generator_loss(on_fakes, labels)
