"""Convert images: scale bytes to [-1, 1] and back, resize, and change the channels."""

import torch
import torch.nn.functional as F
from torch import Tensor

_CHUNK = 2048  # images converted at once; this limits the size of the float copy
_LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, as in Pillow's mode L


def to_unit(images: Tensor) -> Tensor:
    """Return bytes as float32 in [-1, 1]; floating-point images are returned unchanged."""
    if images.is_floating_point():
        return images
    return images.to(torch.float32) / 127.5 - 1.0


def to_bytes(images: Tensor) -> Tensor:
    """Invert to_unit: return uint8, rounded and clamped; uint8 images are returned unchanged."""
    if images.dtype == torch.uint8:
        return images
    return ((images + 1.0) * 127.5).round().clamp(0, 255).to(torch.uint8)


def resize(images: Tensor, size: int) -> Tensor:
    """Resize uint8 images (M, C, H, W) to size x size with antialiased bilinear interpolation."""
    if images.shape[-2:] == (size, size):
        return images
    resized = [
        F.interpolate(chunk.to(torch.float32), size=(size, size), mode="bilinear", antialias=True)
        .round()
        .clamp(0, 255)
        .to(torch.uint8)
        for chunk in images.split(_CHUNK)
    ]
    return torch.cat(resized)


def to_grey(images: Tensor) -> Tensor:
    """Convert uint8 images (M, 3, H, W) to grey images (M, 1, H, W)."""
    weights = torch.tensor(_LUMA).reshape(1, 3, 1, 1)
    grey = [(chunk * weights).sum(dim=1, keepdim=True).round() for chunk in images.split(_CHUNK)]
    return torch.cat(grey).clamp(0, 255).to(torch.uint8)


def to_colour(images: Tensor) -> Tensor:
    """Convert uint8 images (M, 1, H, W) to (M, 3, H, W) with three equal channels."""
    return images.repeat(1, 3, 1, 1)
