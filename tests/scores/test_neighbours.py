import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from remuda.errors import UserError
from remuda.scores import distances
from remuda.scores.neighbours import copying, nearest, pixels

from .samples import DEVICES, normal


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("k", [1, 4])
def test_scikit_learn_agrees(k, device, monkeypatch):
    monkeypatch.setattr(distances, "_BLOCK", 1000)
    training, queries = normal(300, 6, 0).to(device), normal(40, 6, 1).to(device)
    found = nearest(queries, training, k)
    expected, indices = (
        NearestNeighbors(n_neighbors=k, algorithm="brute")
        .fit(training.cpu().double())
        .kneighbors(queries.cpu().double())
    )
    assert torch.equal(found.indices.cpu(), torch.from_numpy(indices))
    assert torch.allclose(found.distances.cpu(), torch.from_numpy(expected), rtol=1e-9)


def test_copies_are_at_distance_zero():
    training = normal(400, 50, shift=100)
    found = nearest(training[[7, 300]], training)
    assert found.indices.tolist() == [[7], [300]] and found.distances.tolist() == [[0.0], [0.0]]


def test_pixels():
    images = torch.tensor([0, 255, 51, 204], dtype=torch.uint8).reshape(2, 1, 1, 2)
    assert torch.allclose(pixels(images), torch.tensor([[-1.0, 1.0], [-0.6, 0.6]]))
    assert nearest(pixels(images), pixels(images)).indices.flatten().tolist() == [0, 1]


def test_copies_are_distinguished_from_new_samples():
    training, held_out = normal(1000, 12, 0), normal(500, 12, 1)
    honest = copying(normal(1000, 12, 2), held_out, training)
    assert honest.fraction < 0.03 and honest.median_ratio == pytest.approx(1, abs=0.05)
    copies = training[:300] + 1e-3 * normal(300, 12, 3)
    half = copying(torch.cat([copies, normal(300, 12, 4)]), held_out, training)
    assert half.fraction == pytest.approx(0.5, abs=0.02)
    assert copying(copies, held_out, training).median_ratio < 0.05
    assert copying(normal(100, 12, 5, shift=9), held_out, training).fraction == 0


def test_numbers_by_hand():
    training = torch.tensor([[0.0], [10.0]])
    held_out = torch.tensor([[1.0], [8.0], [13.0], [4.0]])  # at 1, 2, 3, 4
    fake = torch.tensor([[10.5], [11.0], [-6.0], [2.5]])  # at 0.5, 1, 6, 2.5
    found = copying(fake, held_out, training, quantile=0.25)
    assert found[:3] == pytest.approx((0.5, 1.75, 1.75 / 2.5))
    assert found.is_copy.tolist() == [True, True, False, False]


def test_invalid_input_is_an_error():
    good, broken = normal(200, 4), normal(200, 4)
    broken[0] = torch.inf
    for queries, training, match in [
        (good[:0], good, "at least 1 samples, but there are 0"),
        (good, good[:2], "at least 3 training images, but there are 2"),
        (broken, good, "samples contain NaN or infinity"),
        (normal(9, 5), good, "5 features each, but training images have 4"),
    ]:
        with pytest.raises(UserError, match=match):
            nearest(queries, training, 3)
    with pytest.raises(UserError, match="num_neighbours must be at least 1"):
        nearest(good, good, 0)
    for args, match in [
        ((good[:1], good, good), "at least 2 generated images, but there is 1"),
        ((good[:1].expand(50, 4), good, good), "all generated images are equal"),
        ((good, good[:99], good), "at least 100 held-out images, but there are 99"),
        ((good, good, good), "100.0% of the held-out images are also in the training set"),
        ((good, broken, good), "held-out images contain NaN"),
        ((good, good, good, 1.5), "must lie between 0 and 1"),
    ]:
        with pytest.raises(UserError, match=match):
            copying(*args)


def test_training_images_may_be_bytes_and_are_compared_in_parts(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (300, 1, 4, 4), generator=generator, dtype=torch.uint8)
    training, held_out = images[:180], pixels(images[180:])
    fake = torch.cat([pixels(training[:7]), held_out[:30] + 0.01])
    expected = copying(fake, held_out, pixels(training))
    monkeypatch.setattr("remuda.scores.neighbours._PART", 50)
    found = copying(fake, held_out, training)
    assert found[:3] == expected[:3] and found.is_copy.equal(expected.is_copy)
    assert expected.fraction >= 7 / 37
