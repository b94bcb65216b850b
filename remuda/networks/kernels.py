"""Compute convolutions of many members on a GPU, with kernels that store no patches.

Each kernel is a matrix product whose left factor is gathered from the images while it is read.
Images are (members, images, height, width, channels), weights (members, k, k, in, out).
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


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


@triton.jit
def _gather_product(
    x,
    weight,
    y,
    images,
    HEIGHT: tl.constexpr,  # of x
    WIDTH: tl.constexpr,
    OUT_HEIGHT: tl.constexpr,  # of y
    OUT_WIDTH: tl.constexpr,
    DEPTH: tl.constexpr,  # channels of x
    CHANNELS: tl.constexpr,  # of y
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    SQUARE: tl.constexpr,  # side of a square of output pixels
    PRECISION: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Convolve, or convolve transposed: one member, one block of pixels, one of columns.

    The rows of the product are squares of output pixels, the columns are the channels of all
    pixels in a square. A transposed convolution reads the pixels (row - i, column - j) and writes
    the square that begins at (stride * row - padding, stride * column - padding). All pixels in
    this square depend on the same inputs.
    """
    MARGIN: tl.constexpr = PADDING if TRANSPOSED else 0
    ROWS: tl.constexpr = (OUT_HEIGHT + MARGIN + SQUARE - 1) // SQUARE
    COLUMNS: tl.constexpr = (OUT_WIDTH + MARGIN + SQUARE - 1) // SQUARE
    NUM_OUTPUTS: tl.constexpr = SQUARE * SQUARE * CHANNELS
    # input pixels along one axis that a square depends on
    NUM_TAPS: tl.constexpr = (
        (SIZE + STRIDE - 1) // STRIDE if TRANSPOSED else SIZE + (SQUARE - 1) * STRIDE
    )
    member = tl.program_id(2).to(tl.int64)
    x += member * images * (HEIGHT * WIDTH * DEPTH)
    weight += member * (SIZE * SIZE * DEPTH * CHANNELS)
    y += member * images * (OUT_HEIGHT * OUT_WIDTH * CHANNELS)

    pixel = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    image = pixel // (ROWS * COLUMNS)
    row = pixel // COLUMNS % ROWS
    column = pixel % COLUMNS
    first = tl.program_id(1) * BLOCK_N
    output = first + tl.arange(0, BLOCK_N)
    channel = output % CHANNELS
    corner = output // CHANNELS  # pixel in the square
    top = (corner // SQUARE)[:, None]
    left = (corner % SQUARE)[:, None]
    row_taps = NUM_TAPS
    column_taps = NUM_TAPS
    if TRANSPOSED:
        start_row = row
        start_column = column
        if CHANNELS % BLOCK_N == 0:  # the whole block belongs to one pixel of the square
            channel = tl.multiple_of(first % CHANNELS, BLOCK_N) + tl.arange(0, BLOCK_N)
            top = first // CHANNELS // STRIDE
            left = first // CHANNELS % STRIDE
            if SIZE % STRIDE != 0:  # some pixels of the square have fewer taps
                row_taps = (SIZE - top + STRIDE - 1) // STRIDE
                column_taps = (SIZE - left + STRIDE - 1) // STRIDE
    else:
        start_row = row * (SQUARE * STRIDE) - PADDING
        start_column = column * (SQUARE * STRIDE) - PADDING

    total = tl.zeros((BLOCK_P, BLOCK_N), dtype=tl.float32)
    num_terms = row_taps * column_taps * DEPTH
    for start in range(0, num_terms, BLOCK_K):
        if DEPTH % BLOCK_K == 0:  # the whole block belongs to one tap
            tap = start // DEPTH
            depth = (tl.multiple_of(start % DEPTH, BLOCK_K) + tl.arange(0, BLOCK_K))[None, :]
        else:
            term = start + tl.arange(0, BLOCK_K)[None, :]
            tap = term // DEPTH
            depth = term % DEPTH
        i = tap // column_taps
        j = tap % column_taps
        known = (output < NUM_OUTPUTS)[:, None]
        if TRANSPOSED:
            from_row = start_row[:, None] - i
            from_column = start_column[:, None] - j
            place = (top + STRIDE * i) * SIZE + left + STRIDE * j
            places = (place * CHANNELS + channel[:, None]) * DEPTH + depth
            if SIZE % STRIDE != 0:
                known = known & (top + STRIDE * i < SIZE) & (left + STRIDE * j < SIZE)
        else:
            from_row = start_row[:, None] + i
            from_column = start_column[:, None] + j
            place = tap
            if SQUARE > 1:
                p = i - top * STRIDE
                q = j - left * STRIDE
                place = p * SIZE + q
                known = known & (p >= 0) & (p < SIZE) & (q >= 0) & (q < SIZE)
            places = (place * DEPTH + depth) * CHANNELS + channel[:, None]
        inside = (from_row >= 0) & (from_row < HEIGHT)
        inside = inside & (from_column >= 0) & (from_column < WIDTH) & (image[:, None] < images)
        if DEPTH % BLOCK_K != 0:
            inside = inside & (term < num_terms)
            known = known & (term < num_terms)
        offset = ((image[:, None] * HEIGHT + from_row) * WIDTH + from_column) * DEPTH + depth
        left_factor = tl.load(x + offset, mask=inside, other=0.0)
        right_factor = tl.load(weight + places, mask=known, other=0.0)
        total = tl.dot(left_factor, tl.trans(right_factor), total, input_precision=PRECISION)

    to_row = (row * SQUARE - MARGIN)[:, None] + (corner // SQUARE)[None, :]
    to_column = (column * SQUARE - MARGIN)[:, None] + (corner % SQUARE)[None, :]
    target = ((image[:, None] * OUT_HEIGHT + to_row) * OUT_WIDTH + to_column) * CHANNELS
    mask = (image < images)[:, None] & (output < NUM_OUTPUTS)[None, :]
    mask = mask & (to_row >= 0) & (to_row < OUT_HEIGHT)
    mask = mask & (to_column >= 0) & (to_column < OUT_WIDTH)
    tl.store(y + target + channel[None, :], total.to(y.dtype.element_ty), mask=mask)


@triton.jit
def _weight_product(
    x,
    g,
    result,
    members,
    images,
    length,  # pixels of g that one program adds up
    HEIGHT: tl.constexpr,  # of x
    WIDTH: tl.constexpr,
    OUT_HEIGHT: tl.constexpr,  # of g
    OUT_WIDTH: tl.constexpr,
    DEPTH: tl.constexpr,  # channels of x
    CHANNELS: tl.constexpr,  # of g
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    """Add up one part of the pixels, for one block of a member's (tap, in) x (out) matrix."""
    TERMS: tl.constexpr = SIZE * SIZE * DEPTH
    NUM_BLOCKS: tl.constexpr = (TERMS + BLOCK_R - 1) // BLOCK_R
    member = tl.program_id(2).to(tl.int64)
    part = tl.program_id(1)
    x += member * images * (HEIGHT * WIDTH * DEPTH)
    g += member * images * (OUT_HEIGHT * OUT_WIDTH * CHANNELS)
    result += (part * members + member) * (TERMS * CHANNELS)

    first = tl.program_id(0) % NUM_BLOCKS * BLOCK_R
    term = first + tl.arange(0, BLOCK_R)
    channel = tl.program_id(0) // NUM_BLOCKS * BLOCK_N + tl.arange(0, BLOCK_N)
    if DEPTH % BLOCK_R == 0:
        tap = first // DEPTH
        depth = (tl.multiple_of(first % DEPTH, BLOCK_R) + tl.arange(0, BLOCK_R))[:, None]
    else:
        tap = (term // DEPTH)[:, None]
        depth = (term % DEPTH)[:, None]
    i = tap // SIZE - PADDING
    j = tap % SIZE - PADDING
    is_term = (term < TERMS)[:, None]
    is_channel = (channel < CHANNELS)[None, :]

    total = tl.zeros((BLOCK_R, BLOCK_N), dtype=tl.float32)
    end = tl.minimum((part + 1) * length, images * (OUT_HEIGHT * OUT_WIDTH))
    for start in range(part * length, end, BLOCK_P):
        pixel = start + tl.arange(0, BLOCK_P)
        image = pixel // (OUT_HEIGHT * OUT_WIDTH)
        row = pixel // OUT_WIDTH % OUT_HEIGHT * STRIDE
        column = pixel % OUT_WIDTH * STRIDE
        from_row = row[None, :] + i
        from_column = column[None, :] + j
        inside = (from_row >= 0) & (from_row < HEIGHT)
        inside = inside & (from_column >= 0) & (from_column < WIDTH) & (pixel < end)[None, :]
        offset = ((image[None, :] * HEIGHT + from_row) * WIDTH + from_column) * DEPTH + depth
        left_factor = tl.load(x + offset, mask=inside & is_term, other=0.0)
        places = pixel[:, None] * CHANNELS + channel[None, :]
        right_factor = tl.load(g + places, mask=(pixel < end)[:, None] & is_channel, other=0.0)
        total = tl.dot(left_factor, right_factor, total, input_precision=PRECISION)
    # (out, in, tap), the order of a layer's parameters
    places = term % DEPTH * (SIZE * SIZE) + term // DEPTH
    target = channel[None, :] * TERMS + places[:, None]
    tl.store(result + target, total.to(result.dtype.element_ty), mask=is_term & is_channel)


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
    members, images, height, width, depth = x.shape
    out_height, out_width, channels = y.shape[2:]
    size = weight.shape[1]
    tile = tile or gather_tile(channels, depth, size, stride, transposed)
    square, margin = (stride, padding) if transposed else (tile.square, 0)
    sides = [triton.cdiv(side + margin, square) for side in (out_height, out_width)]
    pixels, outputs = images * sides[0] * sides[1], square**2 * channels
    grid = triton.cdiv(pixels, tile.rows), triton.cdiv(outputs, tile.columns), members
    _gather_product[grid](
        *(x.contiguous(), weight.contiguous(), y, images),
        *(height, width, out_height, out_width, depth, channels),
        *(size, stride, padding, transposed, square, _precision(x)),
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
    members, images, height, width, depth = x.shape
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
    _weight_product[(blocks, parts, members)](
        *(x.contiguous(), g.contiguous(), result, members, images, length),
        *(height, width, out_height, out_width, depth, channels),
        *(size, stride, padding, _precision(x)),
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
