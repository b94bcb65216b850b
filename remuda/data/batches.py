"""Draw each member's endless stream of batches.

A batch depends only on the seed, the member and the batch's position in the stream.
"""

import copy
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from remuda.data.datasets import Dataset
from remuda.tensors import random


class Batch(NamedTuple):
    """Batches of real data, with one row per member."""

    images: Tensor  # (members, batches, b, C, H, W), with pixels as stored
    labels: Tensor  # (members, batches, b)


class Batches:
    """Draw batches for the members hosted here, each from its share of a data set.

    A member walks through its share in a random order, then again in a new order. It uses every
    image once per epoch, for any size of shares and batches, even if its share is smaller than a
    batch.

    Args:
        dataset: the images that the shares index.
        shares: one tensor of indices for each member of the population.
        members: the numbers of the members hosted here.
        batch_size: number of images in a batch.
        seed: the seed of the run.
        device: the device that stores the images.
        mirror: whether to mirror each image with probability 1/2.
    """

    def __init__(
        self,
        dataset: Dataset,
        shares: Sequence[Tensor],
        *,
        members: Sequence[int],
        batch_size: int,
        seed: int,
        device: torch.device | str = "cpu",
        mirror: bool = False,
    ):
        # Keep only the images that members use here, in ascending order.
        kept = torch.unique(torch.cat([shares[member] for member in members]))
        if len(kept) == len(dataset.labels):
            images, labels = dataset.images, dataset.labels
        else:
            images, labels = dataset.images[kept], dataset.labels[kept]
        self.images, self.labels = images.to(device), labels.to(device)
        self.members, self.batch_size, self.seed, self.mirror = members, batch_size, seed, mirror
        self._own: dict[int, Batches] = {}  # by row: batches of one member
        # Members whose shares have the same size draw together.
        rows_by_size: dict[int, list[int]] = {}
        for row, member in enumerate(members):
            rows_by_size.setdefault(len(shares[member]), []).append(row)
        self.groups: list[tuple[list[int], list[int], Tensor]] = []  # (rows, members, shares)
        for rows in rows_by_size.values():
            group = [members[row] for row in rows]
            stacked = torch.stack([shares[member] for member in group])
            self.groups.append((rows, group, torch.searchsorted(kept, stacked).to(device)))

    def draw(self, first: int, count: int) -> Batch:
        """Return batches number first to first + count - 1 for every member."""
        shape = len(self.members), count, self.batch_size
        index = torch.empty(shape, dtype=torch.int64, device=self.images.device)
        for rows, members, shares in self.groups:
            index[rows] = self._walk(members, shares, first, count)
        images = self.images[index]
        if self.mirror:
            mirrored = self._mirrored(first, count)[..., None, None, None]
            images = torch.where(mirrored, images.flip(-1), images)
        return Batch(images, self.labels[index])

    def draw_row(self, row: int, first: int, count: int) -> Batch:
        """Return the batches of only one member hosted here; the leading axis has length 1."""
        if row not in self._own:
            own = copy.copy(self)
            own.members = [self.members[row]]
            for rows, members, shares in self.groups:
                if row in rows:
                    place = rows.index(row)
                    own.groups = [([0], [members[place]], shares[place : place + 1])]
            self._own[row] = own
        return self._own[row].draw(first, count)

    def _mirrored(self, first: int, count: int) -> Tensor:
        """Return which images to mirror, (members, count, b)."""
        keys = random.keys(self.seed, "mirror", self.members, device=self.images.device)
        keys = random.fold(keys[:, None], torch.arange(first, first + count, device=keys.device))
        draw_bits = torch.func.vmap(lambda key: random.bits(key, (self.batch_size,)))
        coins = draw_bits(keys.flatten()) & 1
        return coins.bool().reshape(*keys.shape, self.batch_size)

    def _walk(self, members: Sequence[int], shares: Tensor, first: int, count: int) -> Tensor:
        """Return indices into the images kept here, (members, count, b).

        All these members must have shares of the same size.
        """
        size = shares.shape[1]
        start, stop = first * self.batch_size, (first + count) * self.batch_size
        orders = []
        for epoch in range(start // size, (stop - 1) // size + 1):
            keys = random.keys(self.seed, "order", members, epoch, device=shares.device)
            orders.append(torch.func.vmap(lambda key: random.permutation(key, size))(keys))
        offset = start // size * size
        walk = torch.cat(orders, 1)[:, start - offset : stop - offset]
        return shares.gather(1, walk).reshape(len(members), count, self.batch_size)
