"""Compute convolutions of many members on a GPU, with kernels that store no patches.

Images are (members, images, height, width, channels), weights (members, k, k, in, out).
"""

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from remuda.networks.gathering import Geometry, gather_product
from remuda.networks.weighing import weight_product


class Tile(NamedTuple):
    """Set the block sizes of a product: rows x columns of the result, depth of one step.

    A convolution computes squares of output pixels. A square of more than one pixel reads fewer
    numbers, but multiplies by zeros. This pays if there are few output channels.
    """

    rows: int
    columns: int
    depth: int
    warps: int = 4
    stages: int = 3
    square: int = 1


def convolution(
    x: Tensor, weight: Tensor, stride: int, padding: int, tile: Tile | None = None
) -> Tensor:
    """Convolve each member's images with its own weights."""
    size = weight.shape[1]
    out = [(side + 2 * padding - size) // stride + 1 for side in x.shape[2:4]]
    y = x.new_empty(*x.shape[:2], *out, weight.shape[4])
    return _gathered(x, weight, y, stride, padding, False, tile)


def input_gradient(
    g: Tensor,
    weight: Tensor,
    height: int,
    width: int,
    stride: int,
    padding: int,
    tile: Tile | None = None,
) -> Tensor:
    """Apply the transposed convolution: the gradient with respect to images of this size."""
    x = g.new_empty(*g.shape[:2], height, width, weight.shape[3])
    return _gathered(g, weight, x, stride, padding, True, tile)


def _gathered(
    x: Tensor,
    weight: Tensor,
    y: Tensor,
    stride: int,
    padding: int,
    transposed: bool,
    tile: Tile | None,
) -> Tensor:
    members, images, _, _, depth = x.shape
    out_height, out_width, channels = y.shape[2:]
    size = weight.shape[1]
    tile = tile or gather_tile(channels, depth, size, stride, transposed)
    square, margin = (stride, padding) if transposed else (tile.square, 0)
    sides = [triton.cdiv(side + margin, square) for side in (out_height, out_width)]
    pixels, outputs = images * sides[0] * sides[1], square**2 * channels
    grid = triton.cdiv(pixels, tile.rows), triton.cdiv(outputs, tile.columns), members
    gather_product[grid](
        *(x.contiguous(), weight.contiguous(), y, images),
        Geometry(*x.shape[2:], *y.shape[2:], size, stride, padding),
        *(transposed, square, _precision(x)),
        *(tile.rows, tile.columns, tile.depth),
        **_launch(tile),
    )
    return y


def weight_gradient(
    x: Tensor,
    g: Tensor,
    size: int,
    stride: int,
    padding: int,
    tile: Tile | None = None,
    parts: int = 0,
) -> Tensor:
    """Return the gradient with respect to weights (k, k) of a convolution of x; g is y's.

    Several programs add up parts of the pixels, and a sum of the parts follows. The order of all
    additions is fixed. The result is (members, out, in, k, k).
    """
    members, images, _, _, depth = x.shape
    out_height, out_width, channels = g.shape[2:]
    if stride == 1 and channels < depth:  # gather the tensor with fewer channels
        flipped = weight_gradient(g, x, size, 1, size - 1 - padding, tile, parts)
        return flipped.flip(3, 4).transpose(1, 2).contiguous()
    terms, pixels = size * size * depth, images * out_height * out_width
    tile = tile or weight_tile(channels, terms)
    blocks = triton.cdiv(terms, tile.rows) * triton.cdiv(channels, tile.columns)
    parts = parts or num_parts(members * blocks, triton.cdiv(pixels, tile.depth))
    length = triton.cdiv(triton.cdiv(pixels, tile.depth), parts) * tile.depth
    dtype = x.dtype if parts == 1 else torch.float32
    result = x.new_empty(parts, members, channels, depth, size, size, dtype=dtype)
    weight_product[(blocks, parts, members)](
        *(x.contiguous(), g.contiguous(), result, members, images, length),
        *(Geometry(*x.shape[2:], *g.shape[2:], size, stride, padding), _precision(x)),
        *(tile.rows, tile.columns, tile.depth),
        **_launch(tile),
    )
    return result[0] if parts == 1 else result.sum(0).to(x.dtype)


def gather_tile(channels: int, depth: int, size: int, stride: int, transposed: bool) -> Tile:
    """Choose the blocks of a convolution."""
    square = 2 if not transposed and stride == 1 and channels <= 4 else 1
    outputs = (stride if transposed else square) ** 2 * channels
    columns = min(128, max(16, triton.next_power_of_2(outputs)))
    terms = triton.next_power_of_2(size * size * depth)
    block = max(16, min(64 if depth % 16 == 0 else 32, terms))
    return Tile(128, columns, block, square=square)


def weight_tile(channels: int, terms: int) -> Tile:
    """Choose the blocks of a weight gradient."""
    rows = min(128, max(16, triton.next_power_of_2(terms)))
    columns = min(128, max(16, triton.next_power_of_2(channels)))
    return Tile(rows, columns, 64)


def num_parts(programs: int, steps: int, wanted: int = 528) -> int:
    """Choose the number of parts that keeps 132 multiprocessors busy, four programs each."""
    return max(1, min(-(-wanted // programs), steps // 8))


def _precision(x: Tensor) -> str:
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def _launch(tile: Tile) -> dict[str, Any]:
    return {"num_warps": tile.warps, "num_stages": tile.stages}
