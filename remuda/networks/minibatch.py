"""Minibatch discrimination of Salimans et al. 2016, "Improved techniques for training GANs", section 3.2."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


class MinibatchDiscrimination(nn.Module):
    """How close each image is to the images of its batch, (b, features) -> (b, num_kernels).

    An image's features become a matrix with a row for each kernel. In a kernel, two images are as close as the
    exponential of the negative L1 distance between their rows; an image's number is the mean over the batch, itself
    included. The paper has the sum, which the next layer's weights make up for; the mean does not grow with the batch.

    With ``num_dims`` above 0 a row has that many numbers, and a learned projection makes them, as in the paper. With 0
    nothing is learned: each kernel compares its own share of the features as they are.

    It is plain broadcasting, for ``vmap`` and compilers; without a compiler, b * b * num_kernels * (numbers in a row)
    differences lie in memory.
    """

    def __init__(self, num_features: int, num_kernels: int, num_dims: int = 0):
        super().__init__()
        assert num_dims or num_features % num_kernels == 0
        self.num_kernels = num_kernels
        self.projection = None
        if num_dims:
            self.projection = nn.Parameter(torch.empty(num_kernels * num_dims, num_features))
            nn.init.xavier_uniform_(self.projection)

    def forward(self, features: Tensor) -> Tensor:
        rows = features if self.projection is None else linear(features, self.projection)
        rows = rows.unflatten(1, (self.num_kernels, -1))  # (b, kernels, numbers in a row)
        rows = rows.to(
            torch.promote_types(rows.dtype, torch.float32)
        )  # differences of rounded numbers say little
        distances = (rows[:, None] - rows).abs().sum(-1)  # (b, b, kernels)
        return torch.exp(-distances).mean(1)
