"""Compute convolutions as matrix products, for compiled populations on a GPU.

Under ``vmap`` a convolution whose weights differ between members becomes a grouped convolution, for
which the libraries have few fast kernels. A matrix product becomes a batched product, which is
what the hardware does fastest. Pixels are moved element-wise before and after the product, first
along rows and then along columns. So a compiler can fuse these moves with adjacent operations,
including in the backward pass.

All public functions take and return (b, H, W, C): a product needs and yields the channels of a
pixel as neighbours in memory.
"""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn.functional import pad

ALIGNMENT = 8  # 2-byte numbers; tensor cores need rows that start at multiples of 16 bytes

# Limits for the parts of a product: see _product.
TILE = 128  # side of the tile of a matrix that one block of threads computes
TILES = 32  # tiles of one member that keep a GPU busy
ROWS = 2048  # fewer rows in a part are not worth a block of threads


def by_patches(x: Tensor, weight: Tensor, bias: Tensor, stride: int) -> Tensor:
    """Apply a 3x3 convolution with padding 1: collect each output pixel's inputs, then multiply.

    This is fast if there are few input channels.
    """
    patches = _patches(x) if stride == 1 else _halved_patches(x)
    product = _product(patches, weight.permute(2, 3, 1, 0).reshape(-1, weight.shape[0]))
    return product + bias.to(product.dtype)


def _patches(x: Tensor) -> Tensor:
    """Return each pixel's neighbourhood: (b, H, W, C) -> (b, H, W, 9 C)."""
    rows = torch.cat([_shifted(x, down=1 - i)[..., None, :] for i in range(3)], 3)
    return torch.stack([_shifted(rows, right=1 - j) for j in range(3)], 4).flatten(3)


def _halved_patches(x: Tensor) -> Tensor:
    """Return the neighbourhood of every second pixel in every second row.

    The shapes are (b, H, W, C) -> (b, h, w, 9 C). Rows are grouped in pairs: an output needs one
    pair and the first row of the next pair. Negative padding cuts off the rest, because its
    gradient is padding again, while the gradient of a slice with steps is a scatter.
    """
    batch, height, width, channels = x.shape
    h, w = (height + 1) // 2, (width + 1) // 2
    padded = _framed(x, 1, 2 * h + 1 - height, 1, 2 * w + 1 - width)
    pairs = padded.reshape(batch, h + 1, 2, w + 1, 2, channels)
    own, following = pad(pairs, (*(0, 0) * 4, 0, -1)), pad(pairs, (*(0, 0) * 3, 0, -1, -1, 0))
    rows = torch.cat([own, following], 2)  # (b, h, 3, w + 1, 2, C)
    own, following = pad(rows, (*(0, 0) * 2, 0, -1)), pad(rows, (0, 0, 0, -1, -1, 0))
    return torch.cat([own, following], 4).permute(0, 1, 3, 2, 4, 5).flatten(3)


def by_overlap(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Apply a 3x3 convolution with stride 1 and padding 1: multiply, then add shifted results.

    This is fast if there are few output channels.
    """
    num_out, num_in = weight.shape[:2]
    matrix = weight.permute(1, 2, 3, 0).reshape(num_in, -1)
    taps = _product(x, matrix).reshape(*x.shape[:3], 3, 3, num_out)
    rows = enumerate(taps.unbind(3))
    columns = _sum(_shifted(part, down=1 - i) for i, part in rows)  # (b, h, w, 3, out)
    total = _sum(_shifted(part, right=1 - j) for j, part in enumerate(columns.unbind(3)))
    return total + bias.to(total.dtype)


def upsampled(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Apply a transposed convolution with a 4x4 kernel (in, out, 4, 4), stride 2 and padding 1.

    A block of 2x2 output pixels depends on 2x2 input pixels, so one product of these patches yields
    all four. Blocks start one pixel outside the image: (2h + 2, 2w + 2) pixels are computed, and
    the border is cut off. All four products of an output pixel are summed inside the product, and
    at most 4 (h + 1) (w + 1) in numbers are stored. Multiplying first and adding shifted results
    would store 16 h w out.
    """
    num_in, num_out = kernel.shape[:2]
    batch, height, width, _ = x.shape
    # Later pixels come first, because they meet the kernel's first taps.
    places = [(top, left) for top in (0, 1) for left in (0, 1)]
    patches = torch.cat([_framed(x, top, 1 - top, left, 1 - left) for top, left in places], 3)
    taps = kernel.reshape(num_in, num_out, 2, 2, 2, 2)  # (in, out, pixel, row, pixel, column)
    matrix = taps.permute(2, 4, 0, 3, 5, 1).reshape(4 * num_in, 4 * num_out)
    blocks = _product(patches, matrix).reshape(batch, height + 1, width + 1, 2, 2, num_out)
    framed = blocks.permute(0, 1, 3, 2, 4, 5).reshape(batch, 2 * height + 2, 2 * width + 2, num_out)
    return _framed(framed, -1, -1, -1, -1) + bias.to(blocks.dtype)


def _framed(x: Tensor, top: int, bottom: int, left: int, right: int) -> Tensor:
    """Add rows and columns of zeros around (b, H, W, ...), or cut off if the number is negative."""
    return pad(x, (*(0, 0) * (x.ndim - 3), left, right, top, bottom))


def _shifted(x: Tensor, down: int = 0, right: int = 0) -> Tensor:
    """Shift (b, H, W, ...) by some pixels; fill with zeros and drop pixels that leave the image."""
    return _framed(x, down, -down, right, -right)


def _sum(terms: Iterable[Tensor]) -> Tensor:
    first, *others = terms
    for other in others:
        first = first + other
    return first


def _product(a: Tensor, matrix: Tensor) -> Tensor:
    """Multiply every vector of a (b, ..., in) by a matrix (in, out): the result is (b, ..., out).

    Both are padded with zeros so that their rows start at aligned addresses. The batch is split
    into parts. The gradient of a small matrix is a sum over many rows, which the libraries compute
    with one block of threads per tile of the matrix; parts give them more to do at once.
    """
    inner, outer = matrix.shape
    padding = -inner % ALIGNMENT, -outer % ALIGNMENT
    a, matrix = pad(a, (0, padding[0])), pad(matrix, (0, padding[1], 0, padding[0]))
    parts = _num_parts(
        a.shape[0], a[0].numel() // a.shape[-1], -(-inner // TILE) * -(-outer // TILE)
    )
    rows = a.reshape(parts, -1, a.shape[-1])
    product = torch.bmm(rows, matrix.expand(parts, -1, -1))
    return product.reshape(*a.shape[:-1], -1)[..., :outer]


def _num_parts(batch: int, rows: int, tiles: int) -> int:
    """Return the smallest number of parts that keeps a GPU busy, or the largest that is useful.

    ``rows`` is the number of rows per image, and ``tiles`` the number of tiles of the matrix.
    """
    divisors = [n for n in range(1, batch + 1) if batch % n == 0 and batch * rows >= n * ROWS]
    return next((n for n in divisors if n * tiles >= TILES), max(divisors, default=1))
