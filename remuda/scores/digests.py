"""Compute short digests that identify the images and weights behind a score."""

import hashlib
from collections.abc import Mapping

from torch import Tensor

_BLOCK = 1 << 26  # bytes copied to the CPU at once
LENGTH = 16  # number of hexadecimal digits of SHA-256 to keep


def image_digest(images: Tensor) -> str:
    """Return the digest of images' shape, type and bytes; it does not depend on the device."""
    return tensor_digest({"images": images})


def tensor_digest(tensors: Mapping[str, Tensor]) -> str:
    """Return the digest of named tensors, such as weights; the order of names does not matter."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        _update(digest, tensor)
    return digest.hexdigest()[:LENGTH]


def text_digest(text: str) -> str:
    """Return the digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def _update(digest: "hashlib._Hash", tensor: Tensor) -> None:
    flat = tensor.detach().reshape(-1)
    for part in flat.split(_BLOCK // max(1, flat.element_size())):
        digest.update(part.cpu().contiguous().numpy().data)
