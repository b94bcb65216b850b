"""Define convolutions of many members as operators, which transforms and compilers accept.

Images are (members, images, height, width, channels), weights (members, k, k, in, out). With
groups, every group of input channels has its own output channels, and ``in`` counts the channels of
one group. The operators are linear in both tensors, and their gradients are again these operators:
so three of them provide all derivatives. On a GPU, they are kernels that store no patches
(kernels.py).

The gradient of weights is (members, out, in, k, k), the layout of a layer's parameters, so that an
optimizer need not transpose it.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.grad import conv2d_input, conv2d_weight

# PyTorch caches compiled programs on disk. It looks them up by the names of their operators, not by
# the definitions of these: after a change in this file, it would run outdated programs.
_VERSION = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
NAMESPACE = f"remuda_{_VERSION}"
LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
Gradients = tuple[Tensor | None, Tensor | None]


def convolution(x: Tensor, weight: Tensor, stride: int, padding: int, groups: int = 1) -> Tensor:
    """Convolve one member's images (b, H, W, C) with its weights (k, k, in, out)."""
    dtype = _dtype(x)
    return _CONVOLUTION(_one(x, dtype), _one(weight, dtype), stride, padding, groups)[0]


def transposed(
    x: Tensor, weight: Tensor, height: int, width: int, stride: int, padding: int
) -> Tensor:
    """Apply the transpose of a convolution of images of this size, with weights (k, k, out, in)."""
    dtype = _dtype(x)
    images, kernels = _one(x, dtype), _one(weight, dtype)
    return _INPUT_GRADIENT(images, kernels, height, width, stride, padding, 1)[0]


def _dtype(x: Tensor) -> torch.dtype:
    """Return the type to compute in: autocast does not know these operators."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def _one(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x[None].to(dtype).contiguous()


def _cpu_convolution(x: Tensor, weight: Tensor, stride: int, padding: int, groups: int) -> Tensor:
    members = x.shape[0]
    y = F.conv2d(
        _joined(x), _kernel(weight), stride=stride, padding=padding, groups=members * groups
    )
    return _separated(y, members)


def _cpu_input_gradient(
    g: Tensor, weight: Tensor, height: int, width: int, stride: int, padding: int, groups: int
) -> Tensor:
    members, batch = g.shape[:2]
    shape = batch, members * groups * weight.shape[3], height, width
    x = conv2d_input(shape, _kernel(weight), _joined(g), stride, padding, groups=members * groups)
    return _separated(x, members)


def _cpu_weight_gradient(
    x: Tensor, g: Tensor, size: int, stride: int, padding: int, groups: int
) -> Tensor:
    members = x.shape[0]
    shape = members * g.shape[4], x.shape[4] // groups, size, size
    weight = conv2d_weight(_joined(x), shape, _joined(g), stride, padding, groups=members * groups)
    return weight.unflatten(0, (members, -1)).contiguous()


def _joined(x: Tensor) -> Tensor:
    """Return (members, b, H, W, C) as (b, members * C, H, W)."""
    return x.permute(1, 0, 4, 2, 3).flatten(1, 2).contiguous()


def _separated(x: Tensor, members: int) -> Tensor:
    return x.unflatten(1, (members, -1)).permute(1, 0, 3, 4, 2).contiguous()


def _kernel(weight: Tensor) -> Tensor:
    return weight.permute(0, 4, 3, 1, 2).flatten(0, 1).contiguous()


def _cuda_convolution(x: Tensor, weight: Tensor, *numbers: int) -> Tensor:
    from remuda.networks import kernels  # needs Triton, which exists only for GPUs

    return kernels.convolution(x, weight, *numbers)


def _cuda_input_gradient(g: Tensor, weight: Tensor, *numbers: int) -> Tensor:
    from remuda.networks import kernels

    return kernels.input_gradient(g, weight, *numbers)


def _cuda_weight_gradient(x: Tensor, g: Tensor, *numbers: int) -> Tensor:
    from remuda.networks import kernels

    return kernels.weight_gradient(x, g, *numbers)


def _like_convolution(x: Tensor, weight: Tensor, stride: int, padding: int, groups: int) -> Tensor:
    height, width = ((n + 2 * padding - weight.shape[1]) // stride + 1 for n in x.shape[2:4])
    return x.new_empty(*x.shape[:2], height, width, weight.shape[4])


def _like_input(
    g: Tensor, weight: Tensor, height: int, width: int, stride: int, padding: int, groups: int
) -> Tensor:
    return g.new_empty(*g.shape[:2], height, width, groups * weight.shape[3])


def _like_weight(x: Tensor, g: Tensor, size: int, stride: int, padding: int, groups: int) -> Tensor:
    return x.new_empty(x.shape[0], g.shape[4], x.shape[4] // groups, size, size)


def _weight_gradient(x: Tensor, g: Tensor, size: int, *geometry: int) -> Tensor:
    return _WEIGHT_GRADIENT(x, g, size, *geometry).permute(0, 3, 4, 2, 1)


def _of_convolution(
    g: Tensor, x: Tensor, weight: Tensor, needed: tuple[bool, bool], *geometry: int
) -> Gradients:
    return (
        _INPUT_GRADIENT(g, weight, *x.shape[2:4], *geometry) if needed[0] else None,
        _weight_gradient(x, g, weight.shape[1], *geometry) if needed[1] else None,
    )


def _of_input_gradient(
    z: Tensor, g: Tensor, weight: Tensor, needed: tuple[bool, bool], *numbers: int
) -> Gradients:
    geometry = numbers[2:]
    return (
        _CONVOLUTION(z, weight, *geometry) if needed[0] else None,
        _weight_gradient(z, g, weight.shape[1], *geometry) if needed[1] else None,
    )


def _of_weight_gradient(
    z: Tensor, x: Tensor, g: Tensor, needed: tuple[bool, bool], *numbers: int
) -> Gradients:
    geometry = numbers[1:]
    z = z.permute(0, 3, 4, 2, 1).contiguous()
    return (
        _INPUT_GRADIENT(g, z, *x.shape[2:4], *geometry) if needed[0] else None,
        _CONVOLUTION(x, z, *geometry) if needed[1] else None,
    )


def _operator(
    schema: str,
    cpu: Callable[..., Tensor],
    cuda: Callable[..., Tensor],
    fake: Callable[..., Tensor],
    gradients: Callable[..., Gradients],
    *,
    weights_second: bool = True,
) -> Callable[..., Tensor]:
    """Register an operator of two tensors and some numbers.

    The first tensor contains images, and the second one weights unless ``weights_second`` is False.
    """
    name = LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    LIBRARY.impl(name, cpu, "CPU")
    LIBRARY.impl(name, cuda, "CUDA")

    def shaped(*arguments: Any) -> Tensor:
        if arguments[0].device.type == "cuda":
            cuda(*arguments)  # start to compile the kernels: see launching.py
        return fake(*arguments)

    torch.library.register_fake(f"{NAMESPACE}::{name}", shaped, lib=LIBRARY)
    op = getattr(getattr(torch.ops, NAMESPACE), name).default

    def rule(info: Any, axes: tuple[int | None, ...], a: Tensor, b: Tensor, *numbers: int) -> Any:
        count = info.batch_size
        if weights_second and axes[0] is not None and axes[1] is None:
            # All members have the same weights: their images become one large batch.
            images = a.movedim(axes[0], 1).flatten(1, 2).contiguous()
            return op(images, b, *numbers).unflatten(1, (count, -1)), 1
        result = op(_folded(a, axes[0], count), _folded(b, axes[1], count), *numbers)
        return result.unflatten(0, (count, -1)), 0

    torch.library.register_vmap(f"{NAMESPACE}::{name}", rule, lib=LIBRARY)
    LIBRARY.impl(name, _differentiable(op, gradients), "Autograd", with_keyset=True)
    return op


def _folded(x: Tensor, axis: int | None, count: int) -> Tensor:
    """Join the axis of ``vmap`` with the members."""
    moved = x.expand(count, *x.shape) if axis is None else x.movedim(axis, 0)
    return moved.flatten(0, 1).contiguous()


def _differentiable(op: Any, gradients: Callable[..., Gradients]) -> Callable[..., Tensor]:
    """Return the implementation that records the operator for the backward pass.

    ``torch.library.register_autograd`` does not work under ``torch.func``. This is called once for
    each level of nested gradients, as the implementations of PyTorch's own operators are.
    """
    c = cast(Any, torch._C)

    def below(keys: Any, *arguments: Any) -> Tensor:
        with c._AutoDispatchBelowAutograd():
            return op.redispatch(keys & c._after_autograd_keyset, *arguments)

    class Node(torch.autograd.function._SingleLevelFunction):
        @staticmethod
        def forward(ctx: Any, keys: Any, a: Tensor, b: Tensor, *numbers: int) -> Tensor:
            ctx.save_for_backward(a, b)
            ctx.numbers = numbers
            # PyTorch turns gradients off here. Outer levels still need them.
            with torch.enable_grad():
                return below(keys, a, b, *numbers)

        @staticmethod
        def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
            needed = ctx.needs_input_grad[1:3]
            a, b = gradients(grad_outputs[0].contiguous(), *ctx.saved_tensors, needed, *ctx.numbers)
            return None, a, b, *(None for _ in ctx.numbers)

    def call(keys: Any, a: Tensor, b: Tensor, *numbers: int) -> Tensor:
        if not (torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)):
            return below(keys, a, b, *numbers)
        from torch._functorch.utils import enable_single_level_autograd_function

        with enable_single_level_autograd_function():
            return cast(Any, Node).apply(keys, a, b, *numbers)

    return call


_CONVOLUTION = _operator(
    "convolution(Tensor x, Tensor weight, int stride, int padding, int groups) -> Tensor",
    *(_cpu_convolution, _cuda_convolution, _like_convolution, _of_convolution),
)
_INPUT_GRADIENT = _operator(
    "input_gradient(Tensor g, Tensor weight, int height, int width, int stride, int padding,"
    " int groups) -> Tensor",
    *(_cpu_input_gradient, _cuda_input_gradient, _like_input, _of_input_gradient),
)
_WEIGHT_GRADIENT = _operator(
    "weight_gradient(Tensor x, Tensor g, int size, int stride, int padding, int groups) -> Tensor",
    *(_cpu_weight_gradient, _cuda_weight_gradient, _like_weight, _of_weight_gradient),
    weights_second=False,
)
