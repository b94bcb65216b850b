"""Draw random numbers from *keys*; a key combines the seed, purpose, round and member.

A draw is a pure function of its key. It hashes a counter, so no generator state can get out of
step. The same key gives the same numbers in a loop over members and under ``vmap``, on any device
and any number of ranks (up to the last bit of the transcendental functions). A resumed run draws
the same numbers as an uninterrupted run.
"""

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from remuda.tensors.calculus import transformed

# Odd 64-bit multipliers, written as signed numbers like PyTorch's int64.
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MULTIPLIER = 0xD6E8FEB86659FD93 - (1 << 64)


def key(seed: int, purpose: str, *numbers: int) -> int:
    """Return a 63-bit key; purpose and numbers (round, member, ...) make its stream unique."""
    text = "/".join([str(seed), purpose, *map(str, numbers)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def keys(
    seed: int, purpose: str, members: Sequence[int], *numbers: int, device: torch.device | str
) -> Tensor:
    """Return one key per member, (members,)."""
    return torch.tensor([key(seed, purpose, *numbers, member) for member in members], device=device)


def fold(keys: Tensor, number: int | Tensor) -> Tensor:
    """Return the key of the number-th sub-stream, for keys of any shape.

    Folding a and then b differs from folding b and then a.
    """
    x = keys * _GOLDEN + number
    x = (x ^ (x >> 32 & 0xFFFFFFFF)) * _MULTIPLIER
    return (x ^ (x >> 32 & 0xFFFFFFFF)) * _MULTIPLIER


def chain(key: Tensor, count: int) -> list[Tensor]:
    """Return the key, the key that follows it, and so on: count + 1 keys."""
    keys = [key]
    for _ in range(count):
        keys.append(fold(keys[-1], 0))
    return keys


def bits(key: Tensor, shape: Sequence[int]) -> Tensor:
    """Return 32 random bits per element as int32.

    The key is a scalar; for keys (n,), the result is (n, *shape), and each row depends only on its
    own key.
    """
    counter = torch.arange(math.prod(shape), dtype=torch.int32, device=key.device)
    low, high = _halves(key)
    return _mix(_mix(counter ^ low) + high).reshape(*key.shape, *shape)


def _halves(key: Tensor) -> tuple[Tensor, Tensor]:
    """Return the low and the high 32 bits of keys, with a last axis of 1 unless scalar."""
    if key.ndim:
        key = key[..., None]
    return key.to(torch.int32), (key >> 32).to(torch.int32)


def _mix(x: Tensor) -> Tensor:
    """Hash 32-bit integers with full avalanche; overwrite x.

    The shifts and multipliers are those of lowbias32, which Chris Wellons found by search.
    """
    x ^= (x >> 16) & 0xFFFF
    x *= 0x7FEB352D
    x ^= (x >> 15) & 0x1FFFF
    x *= 0x846CA68B - (1 << 32)
    x ^= (x >> 16) & 0xFFFF
    return x


def octets(key: Tensor, shape: Sequence[int]) -> Tensor:
    """Return 8 random bits per element as uint8; keys (n,) give (n, *shape), as for ``bits``.

    The values are the bytes of ``bits``. Each costs a quarter of a 32-bit value.
    """
    count = math.prod(shape)
    words = bits(key, ((count + 3) // 4,))
    if transformed():
        # Some versions of PyTorch cannot view a batched tensor as bytes. A compiled program stores
        # the words and computes octets where it uses them.
        shifts = torch.arange(0, 32, 8, dtype=torch.int32, device=key.device)
        octets = (words[..., None] >> shifts & 0xFF).to(torch.uint8).flatten(-2)
    else:
        octets = words.view(torch.uint8)
    return octets[..., :count].reshape(*key.shape, *shape)


def uniform(key: Tensor, shape: Sequence[int]) -> Tensor:
    """Return numbers in [0, 1) with 24 random bits each; keys (n,) give (n, *shape)."""
    return ((bits(key, shape) >> 8) & 0xFFFFFF).to(torch.float32) * 2.0**-24


def normal(key: Tensor, shape: Sequence[int]) -> Tensor:
    """Return standard normal numbers (Box-Muller); a longer draw starts with the shorter one."""
    count = math.prod(shape)
    half = (count + 1) // 2
    radius = torch.sqrt(-2.0 * torch.log1p(-uniform(fold(key, 0), (half,))))
    angle = (2.0 * math.pi) * uniform(fold(key, 1), (half,))
    pairs = torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], 1)
    return pairs.flatten()[:count].reshape(tuple(shape))


def permutation(key: Tensor, count: int) -> Tensor:
    """Return a random permutation of range(count)."""
    return torch.argsort(bits(key, (count,)), stable=True)
