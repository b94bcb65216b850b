"""Define layers that work under ``vmap`` and resume exactly: their state is a tree of tensors."""

import math
from itertools import accumulate, pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remuda.errors import UserError
from remuda.networks import convolutions
from remuda.tensors import calculus, random

MOMENTUM = 0.1  # of BatchNorm's running statistics, as in all tables of the papers


def is_compiled() -> bool:
    """Return whether this code becomes part of a compiled program.

    There, images have their channels last, and convolutions are our own operators, which have fast
    kernels for many members (convolutions.py). Other code uses the libraries' convolutions, which
    take images with the channels first.
    """
    return torch.compiler.is_dynamo_compiling()


def channels_last(images: Tensor) -> Tensor:
    """Return images (b, C, H, W) in the layout that the layers of this module expect."""
    return images.permute(0, 2, 3, 1) if is_compiled() else images


def channels_first(images: Tensor) -> Tensor:
    """Return images in the layout of the layers as (b, C, H, W)."""
    return images.permute(0, 3, 1, 2) if is_compiled() else images


def wide_type(x: Tensor) -> torch.dtype:
    """Return the type of x, but at least 32 bits wide."""
    return torch.promote_types(x.dtype, torch.float32)


class Unflatten(nn.Unflatten):
    """Turn vectors (b, C * H * W) into images in the layout of the layers."""

    def __init__(self, *shape: int):
        super().__init__(1, shape)

    def forward(self, input: Tensor) -> Tensor:
        return channels_last(super().forward(input))


class Dropout(nn.Module):
    """Draw the dropout masks of all layers of a network from one random stream in a buffer.

    The buffer advances with every pass, as BatchNorm's statistics do. Masks depend only on the
    state: they are the same in a loop and under ``vmap``, and a resumed run draws the same masks.
    One draw serves a whole pass, because a draw has many operations and compile time grows with
    their number.

    Args:
        probability: fraction of activations to drop, rounded to a multiple of 1/256.
        shapes: the shape of one image's output at each layer, (C, H, W).
    """

    key: Tensor
    num_batches = 1  # see remuda.networks.batches

    def __init__(self, probability: float, *shapes: tuple[int, int, int]):
        super().__init__()
        self.shapes = shapes
        self.threshold = round(probability * 256)
        self.scale = 256 / (256 - self.threshold)
        self.register_buffer("key", torch.randint(1 << 62, ()))

    def forward(self, like: Tensor) -> list[Tensor]:
        """Return the factors to multiply each layer's output by, in the layout of the layers.

        ``like`` (b, ...) gives the batch size and the type, which is at least 32 bits wide: the
        factor 4/3 is inexact in half precision.
        """
        if not self.training:
            return [like.new_ones(()) for _ in self.shapes]
        batch = like.shape[0] // self.num_batches
        ends = [0, *accumulate(batch * math.prod(shape) for shape in self.shapes)]
        *keys, after = random.chain(self.key, self.num_batches)
        draws = random.octets(torch.stack(keys), ends[-1:])  # (num_batches, numbers)
        self.key.copy_(after)
        # Slice the draw separately for each layer: a compiler would store a tensor that is used
        # several times instead of computing it again.
        parts = [draws[:, start:end] for start, end in pairwise(ends)]
        dtype = wide_type(like)
        return [
            channels_last((part >= self.threshold).to(dtype).mul(self.scale).reshape(-1, *shape))
            for part, shape in zip(parts, self.shapes, strict=True)
        ]


class BatchNorm2d(nn.BatchNorm2d):
    """Normalise batches, but do not count them: with a fixed momentum the count is unused."""

    num_batches = 1  # see remuda.networks.batches
    layer_group = "normalisation"  # see remuda.networks.groups

    def __init__(self, num_features: int, eps: float, *, affine: bool = True):
        super().__init__(num_features, eps=eps, momentum=MOMENTUM, affine=affine)
        self.num_batches_tracked = None

    def forward(self, input: Tensor) -> Tensor:
        if self.training and input.numel() == self.num_batches * self.num_features:
            raise UserError(
                "BatchNorm cannot normalise a single pixel: raise strategy.batch_size above 1"
            )
        if is_compiled():
            return self.formulas(input)
        if not self.training:
            return super().forward(input)
        if calculus.transformed() and input.device.type != "cpu":
            return self.formulas(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        batches = input.chunk(self.num_batches)
        outputs = [nn.BatchNorm2d.forward(self, batch) for batch in batches]
        return outputs[0] if self.num_batches == 1 else torch.cat(outputs)

    def formulas(self, input: Tensor) -> Tensor:
        """Normalise (b, H, W, C) with explicit formulas, which a compiler can fuse.

        The library's BatchNorm under ``vmap`` folds members and channels into one axis. On a GPU
        this is slower even without a compiler, and it fails under autocast.
        """
        batches = input.unflatten(0, (self.num_batches if self.training else 1, -1))
        wide = batches.to(wide_type(input))
        if self.training:
            mean, var = self._statistics(wide)
            self._update_running(mean.detach(), var.detach(), wide[0].numel() // wide.shape[-1])
        else:
            mean, var = cast(Tensor, self.running_mean)[None], cast(Tensor, self.running_var)[None]
        scale = torch.rsqrt(var + self.eps)  # (num_batches, C)
        if self.affine:
            scale = self.weight * scale
        shift = -mean * scale
        if self.affine:
            shift = self.bias + shift
        normalised = wide * scale[:, None, None, None] + shift[:, None, None, None]
        return normalised.flatten(0, 1).to(input.dtype)

    def _statistics(self, wide: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and the variance of each batch of (num_batches, b, H, W, C)."""
        axes = 1, 2, 3
        if not is_compiled():
            var, mean = torch.var_mean(wide, axes, correction=0)
            return mean, var
        # A compiler needs one pass over the numbers for two sums. They are sums of differences from
        # the running mean, because the difference of two large sums would be inexact.
        running = cast(Tensor, self.running_mean)
        differences = wide - running
        offset = differences.mean(axes)
        var = (differences.square().mean(axes) - offset.square()).clamp(min=0)
        return offset + running, var

    def _update_running(self, means: Tensor, variances: Tensor, count: int) -> None:
        running_mean, running_var = cast(Tensor, self.running_mean), cast(Tensor, self.running_var)
        unbiased = variances * (count / max(1, count - 1))
        for k in range(self.num_batches):
            running_mean.mul_(1 - MOMENTUM).add_(MOMENTUM * means[k])
            running_var.mul_(1 - MOMENTUM).add_(MOMENTUM * unbiased[k])


class Conv2d(nn.Conv2d):
    """Apply a 3x3 convolution with padding 1."""

    num_batches = 1  # see remuda.networks.batches

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1):
        super().__init__(in_channels, out_channels, 3, stride, padding=1)

    def forward(self, input: Tensor) -> Tensor:
        if not is_compiled():
            return super().forward(input)
        weight = self.weight.permute(2, 3, 1, 0)  # (k, k, in, out)
        y = convolutions.convolution(input, weight, self.stride[0], padding=1)
        return y + cast(Tensor, self.bias).to(y.dtype)


class Pointwise(nn.Conv2d):
    """Apply a 1x1 convolution: the same linear map to every pixel."""

    num_batches = 1  # see remuda.networks.batches

    def __init__(self, in_channels: int, out_channels: int, *, bias: bool = True):
        super().__init__(in_channels, out_channels, 1, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        if not is_compiled():
            return super().forward(input)
        # One matrix of pixels: under vmap, this is one batched product of matrices.
        y = F.linear(input.flatten(0, 2), self.weight.flatten(1))
        y = y.unflatten(0, input.shape[:3])
        return y if self.bias is None else y + self.bias.to(y.dtype)


class UpsampledConv2d(nn.Conv2d):
    """Up-sample by two (nearest neighbour) and apply a 3x3 convolution with padding 1, in one pass.

    A BatchNorm must follow.

    Each output pixel depends on only 2x2 different input pixels. So the two layers are equivalent
    to one transposed convolution with stride 2. Its 4x4 kernel is the 3x3 kernel smeared over 2x2
    pixels. This needs 4 multiplications instead of 9, and the enlarged image is never stored. The
    parameters are those of the 3x3 convolution.
    """

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__(in_channels, out_channels, 3, padding=1)

    def forward(self, input: Tensor) -> Tensor:
        if input.shape[-1] < 4 and not is_compiled():  # the libraries are slower at this
            return super().forward(F.interpolate(input, scale_factor=2, mode="nearest"))
        flipped = self.weight.flip(2, 3).transpose(0, 1)
        shifts = [(left, top) for left in (0, 1) for top in (0, 1)]
        smeared = [F.pad(flipped, (left, 1 - left, top, 1 - top)) for left, top in shifts]
        kernel, bias = smeared[0] + smeared[1] + smeared[2] + smeared[3], cast(Tensor, self.bias)
        if is_compiled():
            # The BatchNorm that follows makes the gradient of the bias 0. Without ``detach``, a
            # compiled program would read the whole gradient once more to compute this 0.
            bias = bias.detach() if self.training else bias
            size = 2 * input.shape[1], 2 * input.shape[2]
            y = convolutions.transposed(input, kernel.permute(2, 3, 1, 0), *size, 2, padding=1)
            return y + bias.to(y.dtype)
        return F.conv_transpose2d(input, kernel, bias, stride=2, padding=1)


class Doubling(nn.ConvTranspose2d):
    """Apply a 5x5 transposed convolution that doubles the size."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__(in_channels, out_channels, 5, stride=2, padding=2, output_padding=1)

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return channels_last(super().forward(channels_first(input), output_size))


def one_hot(labels: Tensor, num_classes: int) -> Tensor:
    """Return labels (b,) as one-hot floats (b, num_classes), without indexing, as vmap requires.

    Mixtures of labels, floats (b, num_classes), are returned unchanged.
    """
    if labels.is_floating_point():
        return labels
    return (labels[:, None] == torch.arange(num_classes, device=labels.device)).float()
