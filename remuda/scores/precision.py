"""Train feature extractors in full float32, with bit-identical results every time.

Their forward passes do not need this, see ``remuda.scores.features.layers``.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def full_float32(device: torch.device) -> Iterator[None]:
    """Turn off TF32 and nondeterministic algorithms in all threads.

    On a GPU, PyTorch computes convolutions in TF32 by default. A CPU needs no change.
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
    """Use one thread on a CPU, because the order of sums depends on the number of threads."""
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
