"""Check that kernels are compiled while a compiler traces the operators, and launched later."""

import contextlib
import sys
import threading
from types import ModuleType

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from remuda.networks import convolutions, launching
from remuda.networks.tiles import Tile


class Program:
    """A Triton program that only notes how it is compiled and launched."""

    def __init__(self, fails: bool = False):
        self.fails = fails
        self.compiled, self.launched = [], []

    def warmup(self, *arguments, grid, **options):
        assert threading.current_thread() is not threading.main_thread()
        if self.fails:
            raise RuntimeError("cannot compile")
        self.compiled.append((arguments, grid, options))

    def __getitem__(self, grid):
        return lambda *arguments, **options: self.launched.append((arguments, grid, options))


@pytest.fixture
def run(monkeypatch):
    """Launch or compile a program for two tensors, without a GPU."""
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())

    def run(program, tensor, images=100):
        launching.run(program, (1, 2, 3), (tensor, tensor), (images, True), Tile(16, 16, 16, 8, 2))

    return run


def test_fake_tensors_compile_each_program_once(run):
    program, real = Program(), torch.ones(2)
    with FakeTensorMode():
        for images in (100, 100, 16):
            run(program, torch.ones(2), images)
        run(program, torch.ones(2, dtype=torch.bfloat16))
    assert not program.launched
    run(program, real)  # waits for its own compilation
    for future in launching._compilations.values():
        future.result()
    options = {"num_warps": 8, "num_stages": 2}
    assert program.launched == [((real, real, 100, True), (1, 2, 3), options)]
    float32, bfloat16 = [torch.float32] * 2, [torch.bfloat16] * 2
    compiled = [(*float32, 100, True), (*float32, 16, True), (*bfloat16, 100, True)]
    expected = [(arguments, (1, 2, 3), options) for arguments in compiled]
    assert sorted(program.compiled, key=str) == sorted(expected, key=str)


def test_a_failed_compilation_does_not_prevent_the_launch(run):
    program = Program(fails=True)
    with FakeTensorMode():
        run(program, torch.ones(2))
    run(program, torch.ones(2))
    assert len(program.launched) == 1  # a real launch compiles again, and raises


def test_tracing_an_operator_for_a_gpu_compiles_its_kernels(monkeypatch):
    called = []
    kernels = ModuleType("kernels")
    monkeypatch.setattr(kernels, "convolution", lambda *a: called.append(a[2:]), raising=False)
    monkeypatch.setitem(sys.modules, "remuda.networks.kernels", kernels)
    monkeypatch.setattr("remuda.networks.kernels", kernels, raising=False)
    for device in ("cpu", "cuda"):
        with FakeTensorMode():
            x, weight = (
                torch.empty(2, 4, 6, 6, 5, device=device),
                torch.empty(2, 3, 3, 5, 7, device=device),
            )
            y = convolutions._CONVOLUTION(x, weight, 2, 1, 1)
        assert y.shape == (2, 4, 3, 3, 7) and y.device.type == device
    assert called == [(2, 1, 1)], "only for a GPU"
