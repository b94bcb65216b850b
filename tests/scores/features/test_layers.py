"""Forward passes of feature extractors do not depend on PyTorch's switches for TF32."""

import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from remuda.scores.features import layers
from remuda.scores.features.lenet import LeNet, Recipe, extract, initialize

CPU = torch.device("cpu")


@pytest.fixture
def images():
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (20, 3, 12, 12), dtype=torch.uint8, generator=generator)


@pytest.fixture
def without_switches(monkeypatch):
    """Take the path of a GPU on a CPU; return the arguments of the convolutions."""
    calls = []

    def convolve(images, weight, padding, stride, dilation, groups):
        calls.append((padding, stride, dilation, groups))
        return F.conv2d(images, weight, None, stride, padding, dilation, groups)

    def use():
        monkeypatch.setattr(layers, "has_switches", lambda values: not torch.is_grad_enabled())
        monkeypatch.setattr(layers, "cudnn_convolution", convolve)
        return calls

    return use


def test_the_path_of_a_gpu_gives_the_same_features(images, without_switches):
    network = LeNet((3, 12, 12), 4, Recipe())
    initialize(network, 0, CPU)
    expected = extract(network, images, CPU)
    calls = without_switches()
    for found, value in zip(extract(network, images, CPU), expected, strict=True):
        torch.testing.assert_close(found, value, rtol=1e-5, atol=1e-5)
        assert found.dtype == torch.float32
    assert len(calls) == 2


def test_arguments_and_biases_arrive(without_switches):
    for options in ({"stride": 2}, {"padding": (0, 3)}, {"dilation": 2}, {"bias": False}):
        layer, plain = layers.Convolution(3, 6, 3, **options), nn.Conv2d(3, 6, 3, **options)
        plain.load_state_dict(layer.state_dict())
        batch = torch.linspace(-1, 1, 2 * 3 * 9 * 9).reshape(2, 3, 9, 9)
        without_switches()
        with torch.no_grad():
            torch.testing.assert_close(layer(batch), plain(batch))
            rows, matrix = batch.flatten(1), torch.linspace(0, 1, 243 * 5).reshape(243, 5)
            torch.testing.assert_close(layers.product(rows, matrix), rows @ matrix)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_another_thread_may_change_the_switches(images):
    device = torch.device("cuda")
    network = LeNet((3, 12, 12), 4, Recipe())
    initialize(network, 0, device)
    network.requires_grad_(False)
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    end = threading.Event()

    def flip():
        while not end.is_set():
            for allowed in (True, False):
                torch.set_float32_matmul_precision("high" if allowed else "highest")
                torch.backends.cudnn.allow_tf32 = allowed

    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    expected = extract(network, images, device)
    thread = threading.Thread(target=flip)
    thread.start()
    try:
        for _ in range(50):
            for found, value in zip(extract(network, images, device), expected, strict=True):
                assert torch.equal(found, value)
    finally:
        end.set()
        thread.join()
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
