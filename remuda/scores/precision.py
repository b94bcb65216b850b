"""Arithmetic for the networks that judge: full float32, and the same bits each time."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def full_float32(device: torch.device) -> Iterator[None]:
    """Convolutions and products without TF32, by repeatable algorithms, whatever a run has set for its training.

    On a GPU PyTorch computes convolutions in TF32 unless told otherwise; a CPU has nothing to switch off.
    """
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.backends.cudnn.flags(
            enabled=True, benchmark=False, deterministic=True, allow_tf32=False
        ):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """On a CPU, one thread: sums then have one order, whatever number of threads the process was given."""
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
