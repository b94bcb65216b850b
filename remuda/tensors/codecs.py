"""Compress rows of numbers before they travel, and restore them afterwards.

A codec turns the numbers of one row and one leaf into a few smaller tensors with the same rows. All
shapes are fixed, and rows do not depend on each other: if one row diverges, the others do not
notice. A block or a row with a number that is not finite becomes NaN, so that a diverged run stays
visible.

Numbers travel as integers: if they travelled in half precision, PyTorch's compiler would skip the
rounding of rows that stay on their device.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from remuda.tensors import trees
from remuda.tensors.trees import Tree

BLOCK = 512  # numbers of a row that share one scale, their largest magnitude
INT16, INT8 = 2**15 - 1, 2**7 - 1  # the largest integers

Parts = tuple[Tensor, ...]


class Coded(NamedTuple):
    """A compressed leaf. ``like`` has no bytes: only its shape (rows, 0, ...) and its type matter.

    They travel with the description of the rows, so a receiver can restore the leaf.
    """

    parts: Parts
    like: Tensor


class Codec(NamedTuple):
    """Functions on numbers (rows, m). Only top-k uses the share."""

    encode: Callable[[Tensor, float], Parts]  # the numbers, and the share of them to keep
    decode: Callable[[Parts, int], Tensor]  # the parts, and m
    num_bytes: Callable[[int, float], int]  # bytes of the parts of a row: m, and the share


class Compressor(NamedTuple):
    """A codec by name, with the share of the numbers that top-k keeps."""

    codec: str = "none"
    share: float = 1.0

    def encode(self, rows: Tree) -> Tree:
        """Return rows in which every floating-point leaf that gets smaller is compressed."""
        if self.codec == "none":
            return rows
        return trees.map(self._encode, rows)

    def decode(self, rows: Tree) -> Tree:
        """Return rows with the structure, shapes and types from before ``encode``."""
        if self.codec == "none" or isinstance(rows, Tensor):
            return rows
        if isinstance(rows, Coded):
            shape, decode = rows.like.shape[2:], CODECS[self.codec].decode
            numbers = decode(rows.parts, shape.numel())
            return numbers.reshape(len(rows.like), *shape).to(rows.like.dtype)
        if isinstance(rows, dict):
            return {name: self.decode(child) for name, child in rows.items()}
        children = [self.decode(child) for child in rows]
        return type(rows)(*children) if hasattr(rows, "_fields") else tuple(children)

    def _encode(self, leaf: Tensor) -> Any:
        if not leaf.is_floating_point():
            return leaf
        m = leaf[:1].numel()
        if CODECS[self.codec].num_bytes(m, self.share) >= m * leaf.element_size():
            return leaf
        parts = CODECS[self.codec].encode(leaf.flatten(1).float(), self.share)
        return Coded(parts, leaf.new_empty(len(leaf), 0, *leaf.shape[1:]))

    def row_bytes(self, sizes: Iterable[int]) -> int:
        """Return the bytes of one row whose float32 leaves have these sizes."""
        num_bytes = CODECS[self.codec].num_bytes
        return sum(min(4 * m, num_bytes(m, self.share)) for m in sizes)


COARSE = ("sign", "top-k")  # codecs that suit only gradients
UNCOMPRESSED = Compressor()


# Numbers relative to the largest magnitude of their block


def _relative(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Return numbers (rows, m) in [-1, 1], and the scales (rows, blocks)."""
    m, scales = numbers.shape[1], _by_block(numbers.abs(), lambda block: block.amax(-1))
    divisors = torch.where(scales > 0, scales, 1.0)  # NaN > 0 is false, and NaN / 1 is NaN
    return numbers / _by_number(divisors, m), scales


def _by_block(numbers: Tensor, reduce: Callable[[Tensor], Tensor]) -> Tensor:
    """Reduce numbers (rows, m) to one number per block, (rows, blocks)."""
    # The last block may be shorter. If it were padded and cropped again, PyTorch 2.13's compiler
    # would misread it.
    whole = numbers.shape[1] - numbers.shape[1] % BLOCK
    reduced = reduce(numbers[:, :whole].unflatten(1, (-1, BLOCK)))
    if whole == numbers.shape[1]:
        return reduced
    return torch.cat([reduced, reduce(numbers[:, None, whole:])], 1)


def _by_number(scales: Tensor, m: int) -> Tensor:
    """Return the scale of every number, (rows, m)."""
    return scales[:, torch.arange(m, device=scales.device) // BLOCK]


def _num_blocks(m: int) -> int:
    return -(-m // BLOCK)


def _encode_integers(numbers: Tensor, levels: int, dtype: torch.dtype) -> Parts:
    """Return numbers from -levels to levels. NaN becomes 0, but its scale is NaN too."""
    relative, scales = _relative(numbers)
    return (levels * relative.nan_to_num()).round().to(dtype), scales


def _decode_integers(parts: Parts, levels: int) -> Tensor:
    integers, scales = parts
    return integers.float() / levels * _by_number(scales, integers.shape[1])


def _encode_nibbles(numbers: Tensor) -> Parts:
    """Return numbers from -7 to 7, plus 8, two in a byte."""
    integers, scales = _encode_integers(numbers, 7, torch.int8)
    pairs = pad((integers + 8).to(torch.uint8), (0, numbers.shape[1] % 2)).unflatten(1, (-1, 2))
    return pairs[..., 0] + 16 * pairs[..., 1], scales


def _decode_nibbles(parts: Parts, m: int) -> Tensor:
    packed, scales = parts
    nibbles = torch.stack([packed % 16, packed // 16], 2).flatten(1)[:, :m]
    return _decode_integers((nibbles.to(torch.int8) - 8, scales), 7)


# The signs of numbers, with the mean magnitude of their block

BITS = 8  # signs in a byte


def _encode_signs(numbers: Tensor) -> Parts:
    m, scales = numbers.shape[1], _by_block(numbers.abs(), lambda block: block.mean(-1))
    scales = torch.where(scales.isfinite(), scales, torch.nan)  # infinity: the block diverged
    bits = (numbers > 0).to(torch.uint8)
    if m % BITS:
        bits = torch.cat([bits, bits.new_zeros(len(bits), -m % BITS)], 1)
    values = 2 ** torch.arange(BITS, device=bits.device, dtype=torch.uint8)
    return (bits.unflatten(1, (-1, BITS)) * values).sum(2).to(torch.uint8), scales


def _decode_signs(parts: Parts, m: int) -> Tensor:
    packed, scales = parts
    values = 2 ** torch.arange(BITS, device=packed.device)
    bits = (packed.long()[:, :, None] // values % 2).flatten(1)[:, :m]
    return (2.0 * bits - 1.0) * _by_number(scales, m)


# The largest numbers of a row


def _encode_largest(numbers: Tensor, share: float) -> Parts:
    """Return the largest magnitudes as int16, and their places; earlier places win ties."""
    m = numbers.shape[1]
    order = numbers.abs().sort(dim=1, descending=True, stable=True).indices  # NaN comes first
    places = order[:, : _num_kept(m, share)]
    integers, scales = _encode_integers(numbers.gather(1, places), INT16, torch.int16)
    return integers, scales, places.to(_place_type(m))


def _decode_largest(parts: Parts, m: int) -> Tensor:
    integers, scales, places = parts
    # If the largest number is not finite, the whole row becomes NaN, not only the first block.
    zeros = 0 * scales[:, :1]
    numbers = _decode_integers((integers, scales), INT16) + zeros
    return zeros.expand(-1, m).scatter(1, places.long(), numbers)


def _num_kept(m: int, share: float) -> int:
    return max(1, round(share * m))


def _bytes_of_largest(m: int, share: float) -> int:
    kept = _num_kept(m, share)
    return kept * (2 + _place_type(m).itemsize) + 4 * _num_blocks(kept)


def _place_type(m: int) -> torch.dtype:
    return torch.int16 if m <= 2**15 else torch.int32


CODECS: dict[str, Codec] = {
    "none": Codec(
        lambda numbers, _: (numbers,),
        lambda parts, _: parts[0],
        lambda m, _: 4 * m,
    ),
    "int16": Codec(
        lambda numbers, _: _encode_integers(numbers, INT16, torch.int16),
        lambda parts, _: _decode_integers(parts, INT16),
        lambda m, _: 2 * m + 4 * _num_blocks(m),
    ),
    "int8": Codec(
        lambda numbers, _: _encode_integers(numbers, INT8, torch.int8),
        lambda parts, _: _decode_integers(parts, INT8),
        lambda m, _: m + 4 * _num_blocks(m),
    ),
    "int4": Codec(
        lambda numbers, _: _encode_nibbles(numbers),
        _decode_nibbles,
        lambda m, _: -(-m // 2) + 4 * _num_blocks(m),
    ),
    "sign": Codec(
        lambda numbers, _: _encode_signs(numbers),
        _decode_signs,
        lambda m, _: -(-m // BITS) + 4 * _num_blocks(m),
    ),
    "top-k": Codec(_encode_largest, _decode_largest, _bytes_of_largest),
}
