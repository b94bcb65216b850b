"""Call modules with tensors that are not their own."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from remuda.gan import players


class Scale(nn.Module):
    """Multiply inputs by a weight; wait for another thread before the weight is read."""

    def __init__(self, wait=lambda: None):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.wait = wait

    def forward(self, input):
        self.wait()
        return input * self.weight

    def __deepcopy__(self, memo):
        assert self.weight.item() == 1.0, "copied while it had the tensors of a call"
        return Scale(self.wait)


def scale(module, weight):
    output, _ = players.apply(module, {"weight": torch.tensor(weight)}, {}, torch.ones(()))
    return output.item()


def test_two_threads_call_one_module_with_different_tensors():
    barrier = threading.Barrier(2)
    is_late = threading.Event()  # from now on, calls wait for each other
    module = Scale(lambda: barrier.wait(timeout=10) if is_late.is_set() else None)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(scale, module, 4.0).result() == 4.0
        is_late.set()
        other = pool.submit(scale, module, 2.0)
        assert scale(module, 3.0) == 3.0
        assert other.result() == 2.0
    assert module.weight.item() == 1.0


def test_threads_copy_a_module_only_while_it_has_its_own_tensors():
    module = Scale()
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(scale, module, 2.0 + i % 4) for i in range(400)]
        assert all(scale(module, 1.5) == 1.5 for _ in range(100))
        assert [other.result() for other in others] == [2.0 + i % 4 for i in range(400)]
    assert module.weight.item() == 1.0
