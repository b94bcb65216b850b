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
    was_deterministic = torch.are_deterministic_algorithms_enabled()
    warned_only = torch.is_deterministic_algorithms_warn_only_enabled()
    workspace = os.environ.get(CUBLAS_WORKSPACE)
    torch.set_num_threads(threads)
    if deterministic:
        os.environ.setdefault(CUBLAS_WORKSPACE, ":4096:8")  # cuBLAS requires it
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)
        torch.use_deterministic_algorithms(was_deterministic, warn_only=warned_only)
        if workspace is None:
            os.environ.pop(CUBLAS_WORKSPACE, None)


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
