"""Change PyTorch's process-wide settings temporarily."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from typing import TYPE_CHECKING

from remuda.system.disk import cache_folder

if TYPE_CHECKING:
    import torch

CUBLAS_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
COMPILED_CODE = "TORCHINDUCTOR_CACHE_DIR"

_drawing = threading.RLock()  # held while a thread uses PyTorch's global generator


@contextmanager
def own_random_state(seed: int | None = None) -> Iterator[None]:
    """Draw from PyTorch's global generator, and restore its state afterwards.

    All threads share this generator, so threads take turns. Otherwise, two runs that start in one
    process at the same time would draw each other's initial weights.
    """
    import torch

    with _drawing, torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.manual_seed(seed)
        yield


@contextmanager
def process_settings(threads: int, deterministic: bool, *, is_tf32: bool = False) -> Iterator[None]:
    """Use this many CPU threads and, if ``deterministic``, only deterministic algorithms.

    ``is_tf32`` allows TF32 on a GPU for the whole time, because compiled code must find the
    settings with which it was compiled, perhaps in another thread.
    """
    import torch

    num_threads = torch.get_num_threads()
    before = _determinism()
    workspace = os.environ.get(CUBLAS_WORKSPACE)
    torch.set_num_threads(threads)
    if deterministic:
        os.environ.setdefault(CUBLAS_WORKSPACE, ":4096:8")  # cuBLAS requires it
        torch.use_deterministic_algorithms(True)
    try:
        with tf32(True) if is_tf32 else nullcontext():
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


@contextmanager
def own_stream(device: "torch.device") -> Iterator[None]:
    """Let the work of this thread on a GPU run next to the work of other threads.

    All threads that use this share one stream of the device, because PyTorch keeps the freed memory
    of each stream for itself.
    """
    import torch

    if device.type != "cuda":
        yield
        return
    stream = _second_stream(device)
    stream.wait_stream(torch.cuda.default_stream(device))  # it may still compute our inputs
    with torch.cuda.stream(stream):
        yield


@cache
def _second_stream(device: "torch.device") -> "torch.cuda.Stream":
    import torch

    return torch.cuda.Stream(device)


def keep_compiled_code() -> None:
    """Let PyTorch's compiler keep its results in the user's cache instead of /tmp.

    PyTorch finds results by a hash of the program, its own version and the device, so several
    versions can share the folder.
    """
    folder = cache_folder("compiled")
    with suppress(OSError):  # the user's cache may be read-only; PyTorch then uses /tmp
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            os.environ.setdefault(COMPILED_CODE, str(folder))


@contextmanager
def loading_libraries(device: "torch.device") -> Iterator[None]:
    """Load what the first training step on a GPU needs in a thread, while a block runs.

    The libraries for convolutions and products, and the modules that ``torch.func`` imports when it
    is first used, take several seconds.
    """
    if device.type != "cuda":
        yield
        return
    thread = threading.Thread(target=_load_libraries, args=(device,), name="libraries")
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _load_libraries(device: "torch.device") -> None:
    import torch

    with suppress(Exception):  # the training step reports errors better
        images = torch.zeros(1, 8, 8, 8, device=device)
        torch.nn.functional.conv2d(images, torch.zeros(8, 8, 3, 3, device=device), padding=1)
        torch.bmm(images[0], images[0])
        torch.func.grad(lambda x: x.square().sum())(images)
