"""Convert images: scale bytes to [-1, 1] and back, resize, and change the channels."""

import torch
import torch.nn.functional as F
from torch import Tensor

from remuda.data.config import DataConfig

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


def resize(images: Tensor, sides: tuple[int, int], config: DataConfig) -> Tensor:
    """Resize uint8 images (M, C, H, W) to a height and width, as config.fit and filter tell."""
    if images.shape[-2:] == sides:
        return images
    if config.fit == "crop":
        images = _cropped(images, sides)
    inner = sides
    if config.fit == "pad":
        scale = min(sides[0] / images.shape[-2], sides[1] / images.shape[-1])
        inner = max(1, round(images.shape[-2] * scale)), max(1, round(images.shape[-1] * scale))
    resized = [
        F.interpolate(chunk.to(torch.float32), size=inner, mode=config.filter, antialias=True)
        .round()
        .clamp(0, 255)
        .to(torch.uint8)
        for chunk in images.split(_CHUNK)
    ]
    level = 255 if config.background == "white" else 0
    height, width = sides[0] - inner[0], sides[1] - inner[1]  # of the border, both sides together
    around = width // 2, width - width // 2, height // 2, height - height // 2
    return F.pad(torch.cat(resized), around, value=level)


def _cropped(images: Tensor, sides: tuple[int, int]) -> Tensor:
    """Return the largest centred part with the aspect ratio of the sides."""
    height, width = images.shape[-2:]
    wanted_height = max(1, min(height, round(width * sides[0] / sides[1])))
    wanted_width = max(1, min(width, round(height * sides[1] / sides[0])))
    top, left = (height - wanted_height) // 2, (width - wanted_width) // 2
    return images[..., top : top + wanted_height, left : left + wanted_width]


def to_grey(images: Tensor) -> Tensor:
    """Convert uint8 images (M, 3, H, W) to grey images (M, 1, H, W)."""
    weights = torch.tensor(_LUMA).reshape(1, 3, 1, 1)
    grey = [(chunk * weights).sum(dim=1, keepdim=True).round() for chunk in images.split(_CHUNK)]
    return torch.cat(grey).clamp(0, 255).to(torch.uint8)


def to_colour(images: Tensor) -> Tensor:
    """Convert uint8 images (M, 1, H, W) to (M, 3, H, W) with three equal channels."""
    return images.repeat(1, 3, 1, 1)
