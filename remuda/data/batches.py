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
        self.members, self.batch_size, self.seed = members, batch_size, seed
        # Members with shares of one size draw together: (their rows, their ids, their shares as one tensor).
        by_size: dict[int, list[int]] = {}
        for row, member in enumerate(members):
            by_size.setdefault(len(shares[member]), []).append(row)
        self.groups = [
            (rows, [members[row] for row in rows], torch.stack([shares[members[row]] for row in rows]).to(device))
            for rows in by_size.values()
        ]

    def draw(self, first: int, count: int) -> Batch:
        """Batches number first, ..., first + count - 1 of every member."""
        shape = len(self.members), count, self.batch_size
        index = torch.empty(shape, dtype=torch.int64, device=self.images.device)
        for rows, members, shares in self.groups:
            index[rows] = self._walk(members, shares, first, count)
        return Batch(self.images[index], self.labels[index])

    def _walk(self, members: Sequence[int], shares: Tensor, first: int, count: int) -> Tensor:
        """Positions in the data set, (members, count, b), for members with shares of one size."""
        size = shares.shape[1]
        start, stop = first * self.batch_size, (first + count) * self.batch_size
        orders = []
        for epoch in range(start // size, (stop - 1) // size + 1):
            keys = seeds.keys(self.seed, "order", members, epoch, device=shares.device)
            orders.append(torch.func.vmap(lambda key: seeds.permutation(key, size))(keys))
        offset = start // size * size
        walk = torch.cat(orders, 1)[:, start - offset : stop - offset]
        return shares.gather(1, walk).reshape(len(members), count, self.batch_size)
