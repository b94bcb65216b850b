"""Layers whose state is a plain tree of tensors, so that they work under ``vmap`` and resume exactly."""

from typing import cast

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


class UpsampledConv2d(nn.Conv2d):
    """Nearest-neighbour up-sampling by two, then a 3x3 convolution with padding 1, in one pass.

    Each output pixel sees only 2x2 different input pixels. So the two layers are one transposed convolution with
    stride 2, whose 4x4 kernel is the 3x3 kernel smeared over 2x2 pixels: 4 multiplications for every 9, and the
    enlarged image never exists. The parameters are those of the 3x3 convolution.
    """

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__(in_channels, out_channels, 3, padding=1)

    def forward(self, input: Tensor) -> Tensor:
        flipped = self.weight.flip(2, 3).transpose(0, 1)
        kernel = sum(F.pad(flipped, (left, 1 - left, top, 1 - top)) for left in (0, 1) for top in (0, 1))
        return F.conv_transpose2d(input, cast(Tensor, kernel), self.bias, stride=2, padding=1)


def one_hot(labels: Tensor, num_classes: int) -> Tensor:
    """(b,) -> (b, num_classes) float; written without indexing, so that ``vmap`` takes it."""
    return (labels[:, None] == torch.arange(num_classes, device=labels.device)).float()
