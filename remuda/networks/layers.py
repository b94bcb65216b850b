"""Define layers that work under ``vmap`` and resume exactly: their state is a tree of tensors."""

import math
from itertools import accumulate, pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remuda.errors import UserError
from remuda.networks import products
from remuda.tensors import random

MOMENTUM = 0.1  # of BatchNorm's running statistics, as in all tables of the papers


class Dropout(nn.Module):
    """Draw the dropout masks of all layers of a network from one random stream in a buffer.

    The buffer advances with every pass, as BatchNorm's statistics do. Masks depend only on the
    state: they are the same in a loop and under ``vmap``, and a resumed run draws the same masks.
    One draw serves a whole pass, because a draw has many operations and compile time grows with
    their number.

    Args:
        probability: fraction of activations to drop, rounded to a multiple of 1/256.
        shapes: the shape of one image's output at each layer.
    """

    key: Tensor

    def __init__(self, probability: float, *shapes: tuple[int, ...]):
        super().__init__()
        self.shapes = shapes
        self.threshold = round(probability * 256)
        self.scale = 256 / (256 - self.threshold)
        self.register_buffer("key", torch.randint(1 << 62, ()))

    def forward(self, like: Tensor) -> list[Tensor]:
        """Return the factors to multiply each layer's output (b, *shape) by.

        ``like`` (b, ...) gives the batch size and the type.
        """
        if not self.training:
            return [like.new_ones(()) for _ in self.shapes]
        batch = like.shape[0]
        ends = [0, *accumulate(batch * math.prod(shape) for shape in self.shapes)]
        draws = random.octets(self.key, ends[-1:])
        self.key.copy_(random.fold(self.key, 0))
        # Slice the draw separately for each layer: a compiler would store a tensor that is used
        # several times instead of computing it again.
        parts = [draws[start:end] for start, end in pairwise(ends)]
        return [
            (part >= self.threshold).to(like.dtype).mul(self.scale).reshape(batch, *shape)
            for part, shape in zip(parts, self.shapes, strict=True)
        ]


class BatchNorm2d(nn.BatchNorm2d):
    """Normalise batches, but do not count them: with a fixed momentum the count is unused."""

    def __init__(self, num_features: int, eps: float):
        super().__init__(num_features, eps=eps, momentum=MOMENTUM)
        self.num_batches_tracked = None

    def forward(self, input: Tensor) -> Tensor:
        if self.training and input.shape[0] * math.prod(input.shape[2:]) == 1:
            raise UserError(
                "BatchNorm cannot normalise a single pixel: raise strategy.batch_size above 1"
            )
        if self.training and torch.compiler.is_compiling():
            return self.formulas(input)
        return super().forward(input)

    def formulas(self, input: Tensor) -> Tensor:
        """Compute the same result with explicit formulas, which a compiler can fuse.

        The library's BatchNorm under ``vmap`` would fold members and channels into one axis.
        """
        wide = input.float()
        var, mean = torch.var_mean(wide, (0, 2, 3), correction=0)
        count = input.numel() // input.shape[1]
        unbiased = var.detach() * (count / max(1, count - 1))
        cast(Tensor, self.running_mean).mul_(1 - MOMENTUM).add_(MOMENTUM * mean.detach())
        cast(Tensor, self.running_var).mul_(1 - MOMENTUM).add_(MOMENTUM * unbiased)
        scale = self.weight * torch.rsqrt(var + self.eps)
        shift = self.bias - mean * scale
        return (wide * scale[:, None, None] + shift[:, None, None]).to(input.dtype)


class Conv2d(nn.Conv2d):
    """Apply a 3x3 convolution with padding 1; compiled code computes it as a matrix product."""

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1):
        super().__init__(in_channels, out_channels, 3, stride, padding=1)

    def forward(self, input: Tensor) -> Tensor:
        if not torch.compiler.is_compiling():
            return super().forward(input)
        weight, bias = self.weight, cast(Tensor, self.bias)
        if self.stride == (1, 1) and 9 * self.out_channels < self.in_channels:
            return products.by_overlap(input, weight, bias)
        return products.by_patches(input, weight, bias, self.stride[0])


class UpsampledConv2d(nn.Conv2d):
    """Up-sample by two (nearest neighbour) and apply a 3x3 convolution with padding 1, in one pass.

    Each output pixel depends on only 2x2 different input pixels. So the two layers are equivalent
    to one transposed convolution with stride 2. Its 4x4 kernel is the 3x3 kernel smeared over 2x2
    pixels. This needs 4 multiplications instead of 9, and the enlarged image is never stored. The
    parameters are those of the 3x3 convolution.
    """

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__(in_channels, out_channels, 3, padding=1)

    def forward(self, input: Tensor) -> Tensor:
        if input.shape[-1] < 4:  # the libraries' transposed convolution is slower here
            return super().forward(F.interpolate(input, scale_factor=2, mode="nearest"))
        flipped = self.weight.flip(2, 3).transpose(0, 1)
        shifts = [(left, top) for left in (0, 1) for top in (0, 1)]
        smeared = [F.pad(flipped, (left, 1 - left, top, 1 - top)) for left, top in shifts]
        kernel, bias = smeared[0] + smeared[1] + smeared[2] + smeared[3], cast(Tensor, self.bias)
        if torch.compiler.is_compiling():
            return products.upsampled_by_overlap(input, kernel, bias)
        return F.conv_transpose2d(input, kernel, bias, stride=2, padding=1)


def one_hot(labels: Tensor, num_classes: int) -> Tensor:
    """Return labels (b,) as one-hot floats (b, num_classes), without indexing, as vmap requires."""
    return (labels[:, None] == torch.arange(num_classes, device=labels.device)).float()
