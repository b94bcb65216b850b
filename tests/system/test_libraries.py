"""Libraries that a thread loads while a run is assembled."""

import threading

import torch

from remuda.system import pytorch


def test_a_gpu_loads_its_libraries_during_the_block(monkeypatch):
    loaded, may_finish = [], threading.Event()

    def load(device):
        may_finish.wait(10)
        loaded.append(device)

    monkeypatch.setattr(pytorch, "_load_libraries", load)
    with pytorch.loading_libraries(torch.device("cuda")):
        assert not loaded, "the block does not wait for the thread"
        may_finish.set()
    assert loaded == [torch.device("cuda")], "the end of the block waits for it"


def test_a_cpu_needs_no_thread(monkeypatch):
    monkeypatch.setattr(pytorch, "_load_libraries", lambda device: 1 / 0)
    before = threading.active_count()
    with pytorch.loading_libraries(torch.device("cpu")):
        assert threading.active_count() == before


def test_the_libraries_load_without_an_error():
    pytorch._load_libraries(torch.device("cpu"))
    with torch.no_grad():
        assert torch.func.grad(lambda x: x.square())(torch.tensor(3.0)) == 6
