"""Layers whose state is a plain tree of tensors, so that they work under ``vmap`` and resume exactly."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remuda import seeds


class Dropout(nn.Module):
    """Dropout that carries its own random stream in a buffer.

    The buffer advances with every use, as BatchNorm's statistics do: masks are a function of the state alone, the same
    in a loop and under ``vmap``, before and after a resume. The probability is a multiple of 1/256.
    """

    key: Tensor

    def __init__(self, probability: float):
        super().__init__()
        self.threshold = round(probability * 256)
        self.scale = 256 / (256 - self.threshold)
        self.register_buffer("key", torch.randint(1 << 62, ()))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        kept = seeds.octets(self.key, x.shape) >= self.threshold
        self.key.copy_(seeds.fold(self.key, 0))
        return x * kept.to(x.dtype).mul(self.scale)


class BatchNorm2d(nn.BatchNorm2d):
    """BatchNorm without the count of batches, which a fixed momentum does not need."""

    def __init__(self, num_features: int, eps: float):
        super().__init__(num_features, eps=eps, momentum=0.1)
        self.num_batches_tracked = None


class Upsample(nn.Module):
    """Every pixel becomes two by two."""

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=2, mode="nearest")


def one_hot(labels: Tensor, num_classes: int) -> Tensor:
    """(b,) -> (b, num_classes) float; written without indexing, so that ``vmap`` takes it."""
    return (labels[:, None] == torch.arange(num_classes, device=labels.device)).float()
