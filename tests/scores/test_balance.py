import pytest
import torch

from remuda.errors import UserError
from remuda.scores.balance import class_imbalance, total_variation
from remuda.tensors import random

from .samples import DEVICES


@pytest.mark.parametrize("device", DEVICES)
def test_numbers_by_hand(device):
    probabilities = torch.tensor(
        [[0.6, 0.3, 0.1], [0.1, 0.5, 0.4], [0.7, 0.2, 0.1], [0.8, 0.1, 0.1]]
    ).to(device)
    reference = torch.tensor([0, 1, 2, 2])  # shares 1/4, 1/4, 1/2 against 3/4, 1/4, 0
    assert class_imbalance(probabilities, reference) == pytest.approx(0.5)


def test_fair_classes_and_a_single_class():
    reference = torch.arange(1000) % 10
    near = 0.9 * torch.eye(10) + 0.01
    assert class_imbalance(near[reference[:50]], reference) == pytest.approx(0)
    one = torch.tensor([[1 - 9e-4, *[1e-4] * 9], [1 - 9e-3, *[1e-3] * 9]])
    assert class_imbalance(one, reference) == pytest.approx(0.9)


def test_imbalance_by_chance():
    """Check the figure of the docstring for a fair generator over 200 draws."""
    reference = torch.arange(10)
    draws = [random.bits(torch.tensor(random.key(i, "test")), (10_000,)) % 10 for i in range(200)]
    mean = sum(total_variation(draw, reference, 10) for draw in draws) / 200
    assert mean == pytest.approx(0.012, rel=0.05)


def test_invalid_input_is_an_error():
    good, labels = torch.rand(20, 3).softmax(1), torch.arange(30) % 3
    for probabilities, reference, match in [
        (good[:1], labels, "at least 2 generated images, but there is 1"),
        (good[:1].expand(20, 3), labels, "all generated images are equal"),
        (good * torch.nan, labels, "NaN"),
        (good, labels + 1, "run from 1 to 3, but there are 3 classes"),
        (good, labels - 1, "run from -1 to 1"),
        (good, labels.float(), "whole numbers"),
        (good, labels.reshape(3, 10), "whole numbers"),
        (good, labels[:0], "the reference has no labels"),
    ]:
        with pytest.raises(UserError, match=match):
            class_imbalance(probabilities, reference)
