"""Short names of what a score was made from: equal digests mean equal images or equal weights."""

import hashlib
from collections.abc import Mapping

from torch import Tensor

_BLOCK = 1 << 26  # bytes that are brought to the CPU at once
LENGTH = 16  # hexadecimal digits of SHA-256 that are kept


def image_digest(images: Tensor) -> str:
    """Of images in their order: shape, number type and bytes, wherever they live."""
    return tensor_digest({"images": images})


def tensor_digest(tensors: Mapping[str, Tensor]) -> str:
    """Of named tensors, such as a network's weights; the order of the names does not matter."""
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        _update(found, tensor)
    return found.hexdigest()[:LENGTH]


def text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def _update(found: "hashlib._Hash", tensor: Tensor) -> None:
    flat = tensor.detach().reshape(-1)
    for part in flat.split(_BLOCK // max(1, flat.element_size())):
        found.update(part.cpu().contiguous().numpy().data)
