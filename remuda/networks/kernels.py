"""Compute convolutions of many members on a GPU, with kernels that store no patches.

Images are (members, images, height, width, channels), weights (members, k, k, in, out); with
groups, ``in`` counts the channels of one group. With fake tensors, the functions compute nothing,
but compile the kernels (launching.py).
"""

import torch
from torch import Tensor

from remuda.networks.gathering import gather_product
from remuda.networks.launching import run
from remuda.networks.tiles import Geometry, Tile, gather_tile, num_parts, quotient, weight_tile
from remuda.networks.weighing import weight_product


def convolution(
    x: Tensor, weight: Tensor, stride: int, padding: int, groups: int, *, tile: Tile | None = None
) -> Tensor:
    """Convolve each member's images with its own weights."""
    size = weight.shape[1]
    out = [(side + 2 * padding - size) // stride + 1 for side in x.shape[2:4]]
    y = x.new_empty(*x.shape[:2], *out, weight.shape[4])
    return _gathered(x, weight, y, (stride, padding, groups), False, tile)


def input_gradient(
    g: Tensor,
    weight: Tensor,
    height: int,
    width: int,
    stride: int,
    padding: int,
    groups: int,
    *,
    tile: Tile | None = None,
) -> Tensor:
    """Apply the transposed convolution: the gradient with respect to images of this size."""
    x = g.new_empty(*g.shape[:2], height, width, groups * weight.shape[3])
    return _gathered(g, weight, x, (stride, padding, groups), True, tile)


def _gathered(
    x: Tensor,
    weight: Tensor,
    y: Tensor,
    numbers: tuple[int, int, int],
    transposed: bool,
    tile: Tile | None,
) -> Tensor:
    stride, padding, groups = numbers
    members, images = x.shape[:2]
    geometry = _geometry(x, y, weight.shape[1], *numbers)
    tile = tile or gather_tile(geometry.channels, geometry.depth, geometry.size, stride, transposed)
    square, margin = (stride, padding) if transposed else (tile.square, 0)
    sides = [quotient(side + margin, square) for side in y.shape[2:4]]
    pixels, outputs = images * sides[0] * sides[1], square**2 * geometry.channels
    run(
        gather_product,
        (quotient(pixels, tile.rows), quotient(outputs, tile.columns), members * groups),
        (x.contiguous(), weight.contiguous(), y),
        (images, geometry, transposed, square, _precision(x), tile.rows, tile.columns, tile.depth),
        tile,
    )
    return y


def weight_gradient(
    x: Tensor,
    g: Tensor,
    size: int,
    stride: int,
    padding: int,
    groups: int,
    *,
    tile: Tile | None = None,
    parts: int = 0,
) -> Tensor:
    """Return the gradient with respect to weights (k, k) of a convolution of x; g is y's.

    Several programs add up parts of the pixels, and a sum of the parts follows. The order of all
    additions is fixed. The result is (members, out, in, k, k).
    """
    members, images, _, _, depth = x.shape
    out_height, out_width, channels = g.shape[2:]
    if members == groups == 1 and min(depth, channels) >= 16 and tile is None:
        return _library_weight_gradient(x[0], g[0], size, stride, padding)[None]
    if stride == groups == 1 and channels < depth:  # gather the tensor with fewer channels
        flipped = weight_gradient(g, x, size, 1, size - 1 - padding, 1, tile=tile, parts=parts)
        return flipped.flip(3, 4).transpose(1, 2).contiguous()
    geometry = _geometry(x, g, size, stride, padding, groups)
    depth, channels, products = geometry.depth, geometry.channels, members * groups
    terms, pixels = size * size * depth, images * out_height * out_width
    tile = tile or weight_tile(channels, terms, pixels)
    blocks = quotient(terms, tile.rows) * quotient(channels, tile.columns)
    steps = quotient(pixels, tile.depth)
    parts = parts or num_parts(products * blocks, steps, terms * channels)
    length = quotient(steps, parts) * tile.depth
    dtype = x.dtype if parts == 1 else torch.float32
    shape = members, groups * channels, depth, size, size
    result = x.new_empty(parts, *shape, dtype=dtype)
    run(
        weight_product,
        (blocks, parts, products),
        (x.contiguous(), g.contiguous(), result),
        (products, images, length, geometry, _precision(x), tile.rows, tile.columns, tile.depth),
        tile,
    )
    return result.squeeze(0) if parts == 1 else result.sum(0).to(x.dtype)


def _geometry(x: Tensor, y: Tensor, size: int, stride: int, padding: int, groups: int) -> Geometry:
    """Describe the product of one group, which gathers x; y is the other image."""
    height, width, depth = x.shape[2:]
    out_height, out_width, channels = y.shape[2:]
    sides = height, width, depth // groups, out_height, out_width, channels // groups
    return Geometry(*sides, size, stride, padding, groups)


def _library_weight_gradient(x: Tensor, g: Tensor, size: int, stride: int, padding: int) -> Tensor:
    """Return the weight gradient of one member, (out, in, k, k), computed by cuDNN.

    cuDNN needs half the time of our program for one member: 123 instead of 239 us for 256 -> 256
    channels and 64 images of 32x32 pixels. For ten members, one after the other, it needs more.
    """
    g, x = g.permute(0, 3, 1, 2), x.permute(0, 3, 1, 2)
    like = x.new_empty(1).expand(g.shape[1], x.shape[1], size, size)  # only its shape is used
    geometry = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1
    gradients = torch.ops.aten.convolution_backward(
        g, x, like, None, *geometry, [False, True, False]
    )
    return gradients[1].contiguous()


def _precision(x: Tensor) -> str:
    """Return the precision of products of fp32 numbers; other types ignore it."""
    highest = torch.get_float32_matmul_precision() == "highest"
    return "ieee" if highest and x.dtype == torch.float32 else "tf32"
