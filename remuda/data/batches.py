"""Each member's own endless stream of batches, as a function of the seed, the member and the position alone."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from remuda import seeds
from remuda.data.datasets import Dataset


class Batch(NamedTuple):
    """Rows of real data: images (members, batches, b, C, H, W) as stored, labels (members, batches, b)."""

    images: Tensor
    labels: Tensor


class Batches:
    """Batches for the members hosted here, drawn from their shares of a data set.

    A member walks through its share in a random order, then through it again in another: every image is used once an
    epoch, whatever the sizes of shares and batches, also where a share is smaller than a batch.
    """

    def __init__(
        self,
        dataset: Dataset,
        shares: Sequence[Tensor],  # one index tensor per member of the population
        *,
        members: Sequence[int],
        batch_size: int,
        seed: int,
        device: torch.device | str = "cpu",
    ):
        self.images = dataset.images.to(device)
        self.labels = dataset.labels.to(device)
        self.shares, self.members = shares, members
        self.batch_size, self.seed = batch_size, seed

    def draw(self, first: int, count: int) -> Batch:
        """Batches number first, ..., first + count - 1 of every member."""
        index = torch.stack([self._indices(member, first, count) for member in self.members])
        index = index.to(self.images.device)
        return Batch(self.images[index], self.labels[index])

    def _indices(self, member: int, first: int, count: int) -> Tensor:
        """Positions in the data set, (count, b)."""
        share = self.shares[member]
        start, stop = first * self.batch_size, (first + count) * self.batch_size
        first_epoch, last_epoch = start // len(share), (stop - 1) // len(share)
        epochs = [
            seeds.permutation(seeds.key(self.seed, "order", epoch, member), len(share))
            for epoch in range(first_epoch, last_epoch + 1)
        ]
        offset = first_epoch * len(share)
        walk = torch.cat(epochs)[start - offset : stop - offset]
        return share[walk].reshape(count, self.batch_size)
