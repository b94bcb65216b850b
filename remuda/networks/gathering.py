"""Define matrix products whose left factor is gathered from images while it is read.

Images are (members, images, height, width, channels), weights (members, k, k, in, out). kernels.py
launches these programs, and tiles.py defines the argument G. A group of channels has its own
product; its channels are next to each other in every pixel. Conditions on capitals are decided
when a program is compiled. Where a block lies within one tap of the convolution, the tap is a
single number: only then can the compiler copy 16 bytes at once.
"""

import triton
import triton.language as tl


@triton.jit
def gather_product(
    x,
    weight,
    y,
    images,
    G: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    SQUARE: tl.constexpr,  # side of a square of output pixels
    PRECISION: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Convolve, or convolve transposed: one group, one block of squares, one of columns.

    The rows of the product are squares of output pixels, the columns their channels. A transposed
    convolution reads the pixels (row - i, column - j) and writes the square that begins at (stride
    * row - padding, stride * column - padding). All pixels in this square depend on the same
    inputs.
    """
    member = (tl.program_id(2) // G.groups).to(tl.int64)
    group = tl.program_id(2) % G.groups
    x += member * images * (G.height * G.width * G.depth * G.groups) + group * G.depth
    weight += member * (G.size * G.size * G.depth * G.channels * G.groups)
    weight += group * (G.depth if TRANSPOSED else G.channels)
    y += member * images * (G.out_height * G.out_width * G.channels * G.groups) + group * G.channels
    first = tl.program_id(1) * BLOCK_N
    top, left, channel = _outputs(first, G, TRANSPOSED, SQUARE, BLOCK_N)
    row_taps, column_taps = _num_taps(top, left, G, TRANSPOSED, SQUARE, BLOCK_N)
    total = tl.zeros((BLOCK_P, BLOCK_N), dtype=tl.float32)
    num_terms = row_taps * column_taps * G.depth
    for start in range(0, num_terms, BLOCK_K):
        tap, depth = _terms(start, G.depth, BLOCK_K)
        i, j = tap // column_taps, tap % column_taps
        a = _inputs(
            x, images, i, j, depth, start, num_terms, G, TRANSPOSED, SQUARE, BLOCK_P, BLOCK_K
        )
        places, known = _places(
            i, j, depth, top, left, channel, first, G, TRANSPOSED, SQUARE, BLOCK_N
        )
        if G.depth % BLOCK_K != 0:
            known = known & (start + tl.arange(0, BLOCK_K)[None, :] < num_terms)
        b = tl.load(weight + places, mask=known, other=0.0)
        total = tl.dot(a, tl.trans(b), total, input_precision=PRECISION)
    _store(y, total, images, first, G, TRANSPOSED, SQUARE, BLOCK_P, BLOCK_N)


@triton.jit
def _outputs(
    first, G: tl.constexpr, TRANSPOSED: tl.constexpr, SQUARE: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Return each column's place in the square and channel."""
    output = first + tl.arange(0, BLOCK_N)
    if TRANSPOSED and G.channels % BLOCK_N == 0:  # the whole block belongs to one pixel
        channel = tl.multiple_of(first % G.channels, BLOCK_N) + tl.arange(0, BLOCK_N)
        top = first // G.channels // SQUARE
        left = first // G.channels % SQUARE
    else:
        channel = output % G.channels
        top = (output // G.channels // SQUARE)[:, None]
        left = (output // G.channels % SQUARE)[:, None]
    return top, left, channel


@triton.jit
def _num_taps(
    top,
    left,
    G: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    SQUARE: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Return how many input pixels the block depends on, along both axes."""
    if not TRANSPOSED:
        row_taps = G.size + (SQUARE - 1) * G.stride
        column_taps = row_taps
    elif G.size % G.stride != 0 and G.channels % BLOCK_N == 0:
        row_taps = (G.size - top + G.stride - 1) // G.stride  # some pixels have fewer
        column_taps = (G.size - left + G.stride - 1) // G.stride
    else:
        row_taps = (G.size + G.stride - 1) // G.stride
        column_taps = row_taps
    return row_taps, column_taps


@triton.jit
def _terms(start, DEPTH: tl.constexpr, BLOCK_K: tl.constexpr):
    """Return the tap and the channel of each term of the sum."""
    if DEPTH % BLOCK_K == 0:
        tap = start // DEPTH
        depth = (tl.multiple_of(start % DEPTH, BLOCK_K) + tl.arange(0, BLOCK_K))[None, :]
    else:
        term = start + tl.arange(0, BLOCK_K)[None, :]
        tap = term // DEPTH
        depth = term % DEPTH
    return tap, depth


@triton.jit
def _squares(
    G: tl.constexpr, TRANSPOSED: tl.constexpr, SQUARE: tl.constexpr, BLOCK_P: tl.constexpr
):
    """Return the image, row and column of each square."""
    MARGIN: tl.constexpr = G.padding if TRANSPOSED else 0
    ROWS: tl.constexpr = (G.out_height + MARGIN + SQUARE - 1) // SQUARE
    COLUMNS: tl.constexpr = (G.out_width + MARGIN + SQUARE - 1) // SQUARE
    square = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    return square // (ROWS * COLUMNS), square // COLUMNS % ROWS, square % COLUMNS


@triton.jit
def _inputs(
    x,
    images,
    i,
    j,
    depth,
    start,
    num_terms,
    G: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    SQUARE: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Read the input pixels of a tap, with zeros outside of the image."""
    image, row, column = _squares(G, TRANSPOSED, SQUARE, BLOCK_P)
    if TRANSPOSED:
        from_row = row[:, None] - i
        from_column = column[:, None] - j
    else:
        from_row = (row * (SQUARE * G.stride) - G.padding)[:, None] + i
        from_column = (column * (SQUARE * G.stride) - G.padding)[:, None] + j
    inside = (from_row >= 0) & (from_row < G.height)
    inside = inside & (from_column >= 0) & (from_column < G.width) & (image[:, None] < images)
    if G.depth % BLOCK_K != 0:
        inside = inside & (start + tl.arange(0, BLOCK_K)[None, :] < num_terms)
    pixel = (image[:, None] * G.height + from_row) * G.width + from_column
    return tl.load(x + pixel * (G.depth * G.groups) + depth, mask=inside, other=0.0)


@triton.jit
def _places(
    i,
    j,
    depth,
    top,
    left,
    channel,
    first,
    G: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    SQUARE: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Return where each column's weights for a tap are, and whether they exist."""
    output = first + tl.arange(0, BLOCK_N)
    known = (output < SQUARE * SQUARE * G.channels)[:, None]
    if TRANSPOSED:
        p = top + G.stride * i
        q = left + G.stride * j
        places = ((p * G.size + q) * G.channels + channel[:, None]) * (G.depth * G.groups) + depth
        if G.size % G.stride != 0:
            known = known & (p < G.size) & (q < G.size)
    else:
        p = i
        q = j
        if SQUARE > 1:
            p = i - top * G.stride
            q = j - left * G.stride
            known = known & (p >= 0) & (p < G.size) & (q >= 0) & (q < G.size)
        places = ((p * G.size + q) * G.depth + depth) * (G.channels * G.groups) + channel[:, None]
    return places, known


@triton.jit
def _store(
    y,
    total,
    images,
    first,
    G: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    SQUARE: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    MARGIN: tl.constexpr = G.padding if TRANSPOSED else 0
    image, row, column = _squares(G, TRANSPOSED, SQUARE, BLOCK_P)
    output = first + tl.arange(0, BLOCK_N)
    corner = output // G.channels
    to_row = (row * SQUARE - MARGIN)[:, None] + (corner // SQUARE)[None, :]
    to_column = (column * SQUARE - MARGIN)[:, None] + (corner % SQUARE)[None, :]
    pixel = (image[:, None] * G.out_height + to_row) * G.out_width + to_column
    mask = (image < images)[:, None] & (output < SQUARE * SQUARE * G.channels)[None, :]
    mask = mask & (to_row >= 0) & (to_row < G.out_height)
    mask = mask & (to_column >= 0) & (to_column < G.out_width)
    channel = (output % G.channels)[None, :]
    target = pixel * (G.channels * G.groups) + channel
    tl.store(y + target, total.to(y.dtype.element_ty), mask=mask)
