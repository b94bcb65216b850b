"""Layers whose forward pass does not depend on PyTorch's switches for TF32.

These switches apply to all threads. Scores are computed in full float32 while another thread
trains with TF32. If one thread changed a switch, the other would compute in another precision, or
compile its step again. So convolutions receive their switches as arguments here, and products,
which are small, are computed in float64. With gradients, and on a CPU, the layers are those of
PyTorch; see ``remuda.scores.precision`` for the training of a classifier.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remuda.system import progress


class Convolution(nn.Conv2d):
    """A convolution in float32, with the same algorithm every time."""

    def forward(self, input: Tensor) -> Tensor:
        if not has_switches(input):
            return super().forward(input)
        assert not isinstance(self.padding, str)
        found = cudnn_convolution(
            input, self.weight, self.padding, self.stride, self.dilation, self.groups
        )
        return found if self.bias is None else found + self.bias.reshape(1, -1, 1, 1)


class Linear(nn.Linear):
    """A product with a matrix, plus a bias."""

    def forward(self, input: Tensor) -> Tensor:
        if not has_switches(input):
            return super().forward(input)
        bias = None if self.bias is None else self.bias.double()
        return F.linear(input.double(), self.weight.double(), bias).float()


def in_full_batches(extract: Callable[[Tensor], Tensor], images: Tensor, batch_size: int) -> Tensor:
    """Return the rows of ``extract`` for all images, from batches of exactly this size.

    The last batch is filled up with black images. Libraries round differently in batches of
    different sizes, but the features of an image must not depend on how many others there are.
    """
    parts = []
    for batch in images.split(batch_size):
        rest = batch.new_zeros(batch_size - len(batch), *batch.shape[1:])
        parts.append(extract(torch.cat([batch, rest]))[: len(batch)])
        progress.step(len(batch))
    return torch.cat(parts)


def product(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return a product of float32 matrices."""
    if not has_switches(rows):
        return rows @ matrix
    return (rows.double() @ matrix.double()).float()


def has_switches(values: Tensor) -> bool:
    """Return whether a forward pass with these values would depend on switches."""
    return values.is_cuda and not torch.is_grad_enabled()


def cudnn_convolution(
    images: Tensor,
    weight: Tensor,
    padding: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Tensor:
    """Convolve on a GPU without TF32."""
    switches = {"benchmark": False, "deterministic": True, "allow_tf32": False}
    return torch.ops.aten.cudnn_convolution.default(
        images, weight, padding, stride, dilation, groups, **switches
    )
