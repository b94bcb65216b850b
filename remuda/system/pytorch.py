"""Change PyTorch's process-wide settings temporarily."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

CUBLAS_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


@contextmanager
def process_settings(threads: int, deterministic: bool) -> Iterator[None]:
    """Use this many CPU threads and, if ``deterministic``, only deterministic algorithms."""
    import torch

    num_threads = torch.get_num_threads()
    before = _determinism()
    workspace = os.environ.get(CUBLAS_WORKSPACE)
    torch.set_num_threads(threads)
    if deterministic:
        os.environ.setdefault(CUBLAS_WORKSPACE, ":4096:8")  # cuBLAS requires it
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)
        # PyTorch imports its compiler in this call, which takes a second, so avoid it if possible.
        if _determinism() != before:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        if workspace is None:
            os.environ.pop(CUBLAS_WORKSPACE, None)


def _determinism() -> tuple[bool, bool]:
    import torch

    is_enabled = torch.are_deterministic_algorithms_enabled()
    return is_enabled, torch.is_deterministic_algorithms_warn_only_enabled()


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Allow or forbid TF32 in matrix products and convolutions on a GPU."""
    import torch

    matmul = torch.get_float32_matmul_precision()
    convolution = torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    torch.backends.cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32 = convolution
