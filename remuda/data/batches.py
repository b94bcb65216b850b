"""Draw endless streams of batches, one stream for each share of the data.

A batch depends only on the seed, the number of the share and the batch's position in the stream.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from remuda.data.datasets import Dataset
from remuda.data.prefetch import Prefetcher
from remuda.tensors import random


class Batch(NamedTuple):
    """Batches of real data, with one row per member."""

    images: Tensor  # (members, batches, b, C, H, W), with pixels as stored
    labels: Tensor  # (members, batches, b)


class Request(NamedTuple):
    """Which batches to draw."""

    numbers: tuple[int, ...]  # of the shares
    firsts: tuple[int, ...]  # by share: the position of the first batch in its stream
    num_batches: int  # of each share


def _following(request: Request) -> Request:
    """Return the request for the batches that follow in the same streams."""
    firsts = tuple(first + request.num_batches for first in request.firsts)
    return request._replace(firsts=firsts)


class Batches:
    """Draw batches for the members hosted here, each from its share of a data set.

    A stream walks through its share in a random order, then again in a new order. It uses every
    image once per epoch, for any size of shares and batches, even if the share is smaller than a
    batch.

    Args:
        dataset: the images that the shares index.
        shares: tensors of indices, one for each share.
        members: the numbers of the members hosted here.
        groups: the numbers of each member's shares, for all members of the population. By default,
            member i has only share i.
        batch_size: number of images in a batch.
        seed: the seed of the run.
        device: the device that stores the images; images on disk stay there, and only the batches
            are copied to the device.
        mirror: whether to mirror each image with probability 1/2.
    """

    def __init__(
        self,
        dataset: Dataset,
        shares: Sequence[Tensor],
        *,
        members: Sequence[int],
        groups: Sequence[range] = (),
        batch_size: int,
        seed: int,
        device: torch.device | str = "cpu",
        mirror: bool = False,
    ):
        groups = groups or [range(i, i + 1) for i in range(len(shares))]
        self.groups = [groups[member] for member in members]  # by row
        numbers = [number for group in self.groups for number in group]
        self.batch_size, self.seed, self.mirror = batch_size, seed, mirror
        self._target = device
        self._ahead: Prefetcher[Request, Batch] | None = None
        if dataset.file is None:
            # Keep only the images that members use here, in ascending order.
            kept = torch.unique(torch.cat([shares[number] for number in numbers]))
            if len(kept) == len(dataset.labels):
                images, labels = dataset.images, dataset.labels
            else:
                images, labels = dataset.images[kept], dataset.labels[kept]
            images = images.to(device)
            self._gather, self._device = images.__getitem__, images.device
        else:  # leave the images on disk, and read the next batches while the members train
            kept, labels = torch.arange(len(dataset.labels)), dataset.labels
            self._gather, self._device = dataset.file.gather, torch.device("cpu")
            self._ahead = Prefetcher(self._draw, _following, capacity=len(self.groups))
        self.labels = labels.to(self._device)
        # By the number of the share: indices into the images kept here.
        self._shares = {
            number: torch.searchsorted(kept, shares[number]).to(self._device) for number in numbers
        }

    def draw(self, first: int, count: int) -> Batch:
        """Return batches number first to first + count - 1 of every member's only share."""
        assert all(len(group) == 1 for group in self.groups), "choose shares with draw_shares"
        numbers = [group[0] for group in self.groups]
        return self.draw_shares(numbers, [first] * len(numbers), count)

    def draw_row(self, row: int, first: int, count: int) -> Batch:
        """Return the batches of only one member hosted here; the leading axis has length 1."""
        return self.draw_shares([self.groups[row][0]], [first], count)

    def draw_shares(self, numbers: Sequence[int], firsts: Sequence[int], count: int) -> Batch:
        """Return ``count`` batches of some shares, each from its own position in its stream."""
        request = Request(tuple(numbers), tuple(firsts), count)
        if self._ahead is None:
            return self._draw(request)
        return Batch(*(leaf.to(self._target) for leaf in self._ahead.get(request)))

    def _draw(self, request: Request) -> Batch:
        numbers, firsts, count = request
        shape = len(numbers), count, self.batch_size
        index = torch.empty(shape, dtype=torch.int64, device=self._device)
        # Shares of the same size draw together, if they start at the same position.
        rows_alike: dict[tuple[int, int], list[int]] = {}
        for row, (number, first) in enumerate(zip(numbers, firsts, strict=True)):
            rows_alike.setdefault((len(self._shares[number]), first), []).append(row)
        for (_, first), rows in rows_alike.items():
            index[rows] = self._walk([numbers[row] for row in rows], first, count)
        images = self._gather(index)
        if self.mirror:
            mirrored = self._mirrored(numbers, firsts, count)[..., None, None, None]
            images = torch.where(mirrored, images.flip(-1), images)
        return Batch(images, self.labels[index])

    def _mirrored(self, numbers: Sequence[int], firsts: Sequence[int], count: int) -> Tensor:
        """Return which images to mirror, (shares, count, b)."""
        keys = random.keys(self.seed, "mirror", numbers, device=self._device)
        places = torch.tensor(firsts)[:, None] + torch.arange(count)
        keys = random.fold(keys[:, None], places.to(keys.device))
        draw_bits = torch.func.vmap(lambda key: random.bits(key, (self.batch_size,)))
        coins = draw_bits(keys.flatten()) & 1
        return coins.bool().reshape(*keys.shape, self.batch_size)

    def _walk(self, numbers: Sequence[int], first: int, count: int) -> Tensor:
        """Return indices into the images kept here, (shares, count, b).

        All these shares must have the same size.
        """
        shares = torch.stack([self._shares[number] for number in numbers])
        size = shares.shape[1]
        start, stop = first * self.batch_size, (first + count) * self.batch_size
        orders = []
        for epoch in range(start // size, (stop - 1) // size + 1):
            keys = random.keys(self.seed, "order", numbers, epoch, device=shares.device)
            orders.append(torch.func.vmap(lambda key: random.permutation(key, size))(keys))
        offset = start // size * size
        walk = torch.cat(orders, 1)[:, start - offset : stop - offset]
        return shares.gather(1, walk).reshape(len(numbers), count, self.batch_size)
