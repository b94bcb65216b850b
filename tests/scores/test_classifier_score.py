import math

import numpy as np
import pytest
import torch
from torchmetrics.image.inception import InceptionScore

from remuda.errors import UserError
from remuda.scores.classifier_score import inception_score
from remuda.tensors import random

from .samples import DEVICES, Passing, normal


def by_loops(splits):
    """Return mean and deviation of the splits' scores by the formula of the paper."""
    scores = []
    for split in splits:
        marginal = np.mean(split, axis=0)
        divergences = [
            sum(p * math.log(p / q) for p, q in zip(row, marginal, strict=True) if p > 0)
            for row in split
        ]
        scores.append(math.exp(np.mean(divergences)))
    return np.mean(scores), np.std(scores)


def test_numbers_by_hand():
    # one class each, all equally often: the best score, the number of classes
    sure = torch.eye(4).repeat(5, 1)
    assert inception_score(sure, 1) == (pytest.approx(4), 0)
    rows = torch.tensor([[0.5, 0.5], [1.0, 0.0]])  # marginal (3/4, 1/4)
    first = 0.5 * math.log(2 / 3) + 0.5 * math.log(2)
    expected = math.exp((first + math.log(4 / 3)) / 2)
    assert inception_score(rows, 1)[0] == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("count", "num_splits"), [(40, 4), (43, 4), (60, 10), (59, 7)])
def test_loops_agree_on_uneven_splits(count, num_splits, device):
    probabilities = normal(count, 5).softmax(1).to(device)
    key = random.key(1, "test")
    rows = probabilities.cpu().double()[random.permutation(torch.tensor(key), count)].numpy()
    splits = np.array_split(rows, num_splits)
    assert max(map(len, splits)) - min(map(len, splits)) <= 1
    found = inception_score(probabilities, num_splits, key=key)
    assert found == pytest.approx(by_loops(splits), rel=1e-6)


@pytest.mark.filterwarnings("ignore:Metric `InceptionScore`")
def test_torchmetrics_agrees(monkeypatch):
    logits, key = normal(500, 10).double() * 2, random.key(2, "test")
    order = random.permutation(torch.tensor(key), 500)
    monkeypatch.setattr(torch, "randperm", lambda count: order)
    metric = InceptionScore(feature=Passing(10), splits=10)
    metric.update(logits)
    mean, std = metric.compute()
    expected = float(mean), float(std) * math.sqrt(9 / 10)  # it divides by splits - 1
    assert inception_score(logits.softmax(1), 10, key=key) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("labels", [torch.arange(1000) % 10, torch.arange(1000) // 100])
def test_the_order_of_classes_does_not_matter(labels):
    """Whether labels alternate or are sorted, a split contains nearly all classes."""
    mean, _ = inception_score(torch.eye(10)[labels])
    assert mean > 9
    assert inception_score(torch.eye(10)[labels]) == inception_score(torch.eye(10)[labels])


def test_one_class_is_a_score_of_one():
    sure = torch.tensor([[1.0 - 1e-6, 1e-6], [1.0 - 2e-6, 2e-6]]).repeat(20, 1)
    assert inception_score(sure) == (pytest.approx(1, abs=1e-5), pytest.approx(0, abs=1e-5))


def test_invalid_input_is_an_error():
    good = normal(40, 5).softmax(1)
    for rows, match in [
        (good[:19], "at least 20 generated images, but there are 19"),
        (good[:1].expand(40, 5), "all generated images are equal"),
        (good * torch.nan, "NaN or infinity"),
        (normal(40, 5), "softmax, not its logits"),
        (good[0], "one row per image"),
    ]:
        with pytest.raises(UserError, match=match):
            inception_score(rows)
    with pytest.raises(UserError, match="at least 1 split"):
        inception_score(good, 0)
