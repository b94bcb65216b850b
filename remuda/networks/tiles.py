"""Choose how a GPU divides the matrix products of convolutions among its multiprocessors.

The figures are microseconds on an H200, for ten members with batch 100
(benchmarks/convolutions.py).
"""

from typing import NamedTuple

MULTIPROCESSORS = 132
SMALL = 65_536  # numbers of a member's weight gradient, below which parts cost little


class Geometry(NamedTuple):
    """Describe a product: the image that is gathered, the other image, and the convolution."""

    height: int
    width: int
    depth: int  # channels of the gathered image, in one group
    out_height: int
    out_width: int
    channels: int  # of the other image, in one group
    size: int
    stride: int
    padding: int
    groups: int


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


def gather_tile(channels: int, depth: int, size: int, stride: int, transposed: bool) -> Tile:
    """Choose the blocks of a convolution."""
    square = 2 if not transposed and stride == 1 and channels <= 4 else 1
    outputs = (stride if transposed else square) ** 2 * channels
    block = max(16, min(64 if depth % 16 == 0 else 32, power(size * size * depth)))
    return Tile(128, _side(outputs), block, square=square)


def weight_tile(channels: int, terms: int, pixels: int) -> Tile:
    """Choose the blocks of a weight gradient (terms x channels), a sum over pixels.

    If there are few pixels, smaller blocks hide more of the time to store the results: 74 instead
    of 86 us for 256 -> 512 channels and 400 pixels.
    """
    if pixels <= 512:
        return Tile(min(64, _side(terms)), _side(channels), 64, stages=4)
    return Tile(_side(terms), _side(channels), 64)


def num_parts(programs: int, steps: int, numbers: int) -> int:
    """Choose into how many sums over parts of the pixels a weight gradient is divided.

    More parts keep more multiprocessors busy. But every part writes ``numbers`` fp32 numbers per
    member, which another kernel adds up. For large results this costs more than it gains: 1 part
    takes 40 and 3 parts 129 us for 128 -> 256 channels, 2 parts take 51 and 11 parts 98 us for
    64 -> 128 channels. Small results need all parts: 19 us instead of 113 with 2 parts for 3 -> 16
    channels.
    """
    wanted = MULTIPROCESSORS * (4 if numbers < SMALL else 1)
    return max(1, min(quotient(wanted, programs), steps // 8))


def quotient(number: int, divisor: int) -> int:
    """Return the quotient, rounded up."""
    return -(-number // divisor)


def power(number: int) -> int:
    """Return the next power of two."""
    return 1 << (number - 1).bit_length()


def _side(number: int) -> int:
    return min(128, max(16, power(number)))
