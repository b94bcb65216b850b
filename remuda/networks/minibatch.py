"""Compare the images in a batch with each other (minibatch discrimination).

The method is that of Salimans et al. 2016, "Improved techniques for training GANs", section 3.2.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


class MinibatchDiscrimination(nn.Module):
    """Measure how close each image is to its batch: (b, num_features) -> (b, num_kernels).

    An image's features become a matrix with one row per kernel. In a kernel, the closeness of two
    images is exp(-L1 distance of their rows). For each kernel, an image gets its mean
    closeness to the batch, including itself. The paper uses the sum; the next layer's weights make
    up for the difference, and the mean does not grow with the batch.

    The code uses plain broadcasting, which works with ``vmap`` and compilers. Without a compiler,
    it stores b * b * num_kernels * (numbers in a row) differences.

    Args:
        num_features: number of features per image.
        num_kernels: number of values to compute per image.
        num_dims: length of a row, computed by a learned projection as in the paper. If it is 0,
            nothing is learned and each kernel compares its own part of the features.
    """

    num_batches = 1  # see remuda.networks.batches

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
        # In half precision, the differences would be too coarse.
        rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
        rows = rows.unflatten(0, (self.num_batches, -1))
        distances = (rows[:, :, None] - rows[:, None]).abs().sum(-1)  # (batches, b, b, kernels)
        return torch.exp(-distances).mean(2).flatten(0, 1)
