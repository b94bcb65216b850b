"""Launch Triton programs, and compile them while PyTorch's compiler is still at work.

Triton compiles a program when it is launched for the first time. In a compiled step, this would
happen at the end, one program after the other. But PyTorch's compiler calls all operators with fake
tensors first, so threads can compile their programs meanwhile.
"""

from collections.abc import Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from remuda.networks.tiles import Tile

THREADS = 8

_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="kernels")
_compilations: dict[Hashable, Future[None]] = {}


def run(
    program: Any, grid: tuple[int, int, int], tensors: tuple[Tensor, ...], numbers: Any, tile: Tile
) -> None:
    """Launch a program for these tensors. If the tensors are fake, start to compile it instead.

    ``numbers`` are all arguments of the program behind the tensors.
    """
    device, dtypes = tensors[0].device, tuple(tensor.dtype for tensor in tensors)
    options = {"num_warps": tile.warps, "num_stages": tile.stages}
    key = program, device, dtypes, numbers, tile
    if not isinstance(tensors[0], FakeTensor):
        if key in _compilations:
            wait([_compilations[key]])
        program[grid](*tensors, *numbers, **options)
    elif key not in _compilations:
        _compilations[key] = _threads.submit(
            _compile, program, device, (*dtypes, *numbers), grid, options
        )


def _compile(
    program: Any, device: torch.device, arguments: Any, grid: Any, options: dict[str, int]
) -> None:
    """Compile a program as a launch with aligned tensors would.

    Nobody reads the error of a compilation that fails: the launch compiles again and raises it.
    """
    with torch.cuda.device(device):
        program.warmup(*arguments, grid=grid, **options)
