"""Each member's own endless stream of batches, as a function of the seed, the member and the position alone."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from remuda.data.datasets import Dataset
from remuda.tensors import random


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
        mirror: bool = False,  # whether each image comes as its mirror image half of the time
    ):
        kept = torch.unique(
            torch.cat([shares[member] for member in members])
        )  # ascending: what is used here
        if len(kept) == len(dataset.labels):
            images, labels = dataset.images, dataset.labels
        else:
            images, labels = dataset.images[kept], dataset.labels[kept]
        self.images, self.labels = images.to(device), labels.to(device)
        self.members, self.batch_size, self.seed, self.mirror = members, batch_size, seed, mirror
        # Members with shares of one size draw together: (their rows, their ids, their shares as one tensor).
        by_size: dict[int, list[int]] = {}
        for row, member in enumerate(members):
            by_size.setdefault(len(shares[member]), []).append(row)
        self.groups = [
            (
                rows,
                ids,
                torch.searchsorted(kept, torch.stack([shares[member] for member in ids])).to(
                    device
                ),
            )
            for rows in by_size.values()
            for ids in [[members[row] for row in rows]]
        ]

    def draw(self, first: int, count: int) -> Batch:
        """Batches number first, ..., first + count - 1 of every member."""
        shape = len(self.members), count, self.batch_size
        index = torch.empty(shape, dtype=torch.int64, device=self.images.device)
        for rows, members, shares in self.groups:
            index[rows] = self._walk(members, shares, first, count)
        images = self.images[index]
        if self.mirror:
            images = torch.where(
                self._mirrored(first, count)[..., None, None, None], images.flip(-1), images
            )
        return Batch(images, self.labels[index])

    def _mirrored(self, first: int, count: int) -> Tensor:
        """Which images are mirrored, (members, count, b)."""
        keys = random.keys(self.seed, "mirror", self.members, device=self.images.device)
        keys = random.fold(keys[:, None], torch.arange(first, first + count, device=keys.device))
        coins = (
            torch.func.vmap(lambda key: random.bits(key, (self.batch_size,)))(keys.flatten()) & 1
        )
        return coins.bool().reshape(*keys.shape, self.batch_size)

    def _walk(self, members: Sequence[int], shares: Tensor, first: int, count: int) -> Tensor:
        """Positions among the images here, (members, count, b), for members with shares of one size."""
        size = shares.shape[1]
        start, stop = first * self.batch_size, (first + count) * self.batch_size
        orders = []
        for epoch in range(start // size, (stop - 1) // size + 1):
            keys = random.keys(self.seed, "order", members, epoch, device=shares.device)
            orders.append(torch.func.vmap(lambda key: random.permutation(key, size))(keys))
        offset = start // size * size
        walk = torch.cat(orders, 1)[:, start - offset : stop - offset]
        return shares.gather(1, walk).reshape(len(members), count, self.batch_size)
