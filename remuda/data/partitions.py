"""Which images each member trains on: index tensors into one data set."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from remuda.data.config import DataConfig
from remuda.errors import UserError
from remuda.tensors import random


def partition(
    labels: Tensor, num_members: int, config: DataConfig, num_classes: int, seed: int
) -> list[Tensor]:
    """One int64 tensor of ascending indices per member, by the rule that config.partition names."""
    assert config.partition != "auto", "the caller puts the strategy's choice in place of auto"
    assert num_members > 0
    if len(labels) < num_members and config.partition not in ("all", "subset"):
        raise UserError(
            f"{num_members} members cannot share {len(labels)} images: raise data.limit or take fewer members"
        )
    if len(labels) == 0:
        raise UserError("the data set has no images to draw from: choose another data.name")
    assert int(labels.min()) >= 0 and int(labels.max()) < num_classes
    shares = PARTITIONS[config.partition](
        labels.cpu().numpy(), num_members, config, num_classes, seed
    )
    return [torch.from_numpy(np.sort(share).astype(np.int64)) for share in shares]


def evenly(labels: np.ndarray, limit: int) -> np.ndarray:
    """Ascending indices of limit images at most: the first of every class, then the second, and so on."""
    if not 0 < limit < len(labels):
        return np.arange(len(labels))
    return np.sort(np.lexsort((labels, ranks(labels)))[:limit])


def ranks(labels: np.ndarray) -> np.ndarray:
    """How many images of the same class come before each image."""
    order = np.argsort(labels, kind="stable")
    counts = np.unique(labels, return_counts=True)[1]
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    result = np.empty(len(labels), dtype=np.int64)
    result[order] = np.arange(len(labels)) - starts
    return result


def _all(
    labels: np.ndarray, num_members: int, config: DataConfig, num_classes: int, seed: int
) -> list[np.ndarray]:
    """Every member has everything."""
    return [np.arange(len(labels))] * num_members


def _by_class(
    labels: np.ndarray, num_members: int, config: DataConfig, num_classes: int, seed: int
) -> list[np.ndarray]:
    """Member i has the images of class i."""
    if num_members > num_classes:
        raise UserError(
            f"one class for each member needs at least as many classes as members, but there are "
            f"{num_members} members and {num_classes} classes: take fewer members or another data.partition"
        )
    shares = [np.flatnonzero(labels == member) for member in range(num_members)]
    for member, share in enumerate(shares):
        if len(share) == 0:
            raise UserError(
                f"class {member} has no images for its member: raise data.limit or change data.partition"
            )
    return shares


def _iid(
    labels: np.ndarray, num_members: int, config: DataConfig, num_classes: int, seed: int
) -> list[np.ndarray]:
    """Random disjoint shares of all images, whose sizes differ by one at most."""
    order = _generator(seed, "iid").permutation(len(labels))
    return np.array_split(order, num_members)


def _dirichlet(
    labels: np.ndarray, num_members: int, config: DataConfig, num_classes: int, seed: int
) -> list[np.ndarray]:
    """Disjoint shares of all images; each class is cut in proportions drawn from Dirichlet(alpha).

    A member that the draw leaves without images receives one from the member that has most, so that every
    member can train. With the usual draws (alpha of 0.1 and up, hundreds of images a member) none is left so.
    """
    owner = np.empty(len(labels), dtype=np.int64)  # of each image
    for label in range(num_classes):
        draw = _generator(seed, "dirichlet", label)
        images = draw.permutation(np.flatnonzero(labels == label))
        proportions = draw.dirichlet(np.full(num_members, config.alpha))
        cuts = np.round(np.cumsum(proportions)[:-1] * len(images)).astype(np.int64)
        for member, share in enumerate(np.split(images, cuts)):
            owner[share] = member
    shares = [np.flatnonzero(owner == member) for member in range(num_members)]
    for member in range(num_members):
        if len(shares[member]) == 0:
            richest = max(range(num_members), key=lambda i: len(shares[i]))
            shares[member], shares[richest] = shares[richest][-1:], shares[richest][:-1]
    return shares


def _subset(
    labels: np.ndarray, num_members: int, config: DataConfig, num_classes: int, seed: int
) -> list[np.ndarray]:
    """For each member its own random subset; those of two members may overlap."""
    count = max(1, round(config.fraction * len(labels)))
    return [
        _generator(seed, "subset", member).choice(len(labels), count, replace=False)
        for member in range(num_members)
    ]


def _generator(seed: int, rule: str, *numbers: int) -> np.random.Generator:
    return np.random.default_rng(random.key(seed, f"partition/{rule}", *numbers))


PARTITIONS: dict[str, Callable[[np.ndarray, int, DataConfig, int, int], list[np.ndarray]]] = {
    "all": _all,
    "class": _by_class,
    "iid": _iid,
    "dirichlet": _dirichlet,
    "subset": _subset,
}
