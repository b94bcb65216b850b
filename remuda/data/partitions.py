"""Choose the images that each member trains on; return their indices in the data set."""

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
    """Divide the images among the members with the rule config.partition.

    Args:
        labels: the class of each image, (M,).
        num_members: the number of shares.
        config: the rule and its settings; the rule must not be "auto", which the caller replaces
            with the strategy's choice.
        num_classes: the number of classes.
        seed: the seed of the run, which determines all random choices.

    Returns:
        One int64 tensor of ascending indices for each member.
    """
    assert config.partition != "auto", "the caller replaces auto with the strategy's choice"
    assert num_members > 0
    if len(labels) < num_members and config.partition not in ("all", "subset"):
        raise UserError(
            f"{num_members} members cannot share {len(labels)} images: raise data.limit or train "
            "fewer members"
        )
    if len(labels) == 0:
        raise UserError("the data set has no images to draw from: choose another data.name")
    assert int(labels.min()) >= 0 and int(labels.max()) < num_classes
    shares = PARTITIONS[config.partition](
        labels.cpu().numpy(), num_members, config, num_classes, seed
    )
    return [torch.from_numpy(np.sort(share).astype(np.int64)) for share in shares]


def evenly(labels: np.ndarray, limit: int) -> np.ndarray:
    """Return the ascending indices of at most `limit` images, spread evenly over the classes.

    Take the first image of every class, then the second of every class, and so on. A limit of 0
    keeps all images.
    """
    if not 0 < limit < len(labels):
        return np.arange(len(labels))
    return np.sort(np.lexsort((labels, places_in_class(labels)))[:limit])


def places_in_class(labels: np.ndarray) -> np.ndarray:
    """Return, for each image, how many images of its class come before it."""
    order = np.argsort(labels, kind="stable")
    counts = np.unique(labels, return_counts=True)[1]
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    places = np.empty(len(labels), dtype=np.int64)
    places[order] = np.arange(len(labels)) - starts
    return places


def _all(
    labels: np.ndarray, num_members: int, config: DataConfig, num_classes: int, seed: int
) -> list[np.ndarray]:
    """Give every member all images."""
    return [np.arange(len(labels))] * num_members


def _by_class(
    labels: np.ndarray, num_members: int, config: DataConfig, num_classes: int, seed: int
) -> list[np.ndarray]:
    """Give member i the images of class i."""
    if num_members > num_classes:
        raise UserError(
            "data.partition=class needs at least as many classes as members, but this run has "
            f"{num_members} members and {num_classes} classes: train fewer members or choose "
            "another data.partition"
        )
    shares = [np.flatnonzero(labels == member) for member in range(num_members)]
    for member, share in enumerate(shares):
        if len(share) == 0:
            raise UserError(
                f"class {member} has no images for its member: raise data.limit or choose another "
                "data.partition"
            )
    return shares


def _iid(
    labels: np.ndarray, num_members: int, config: DataConfig, num_classes: int, seed: int
) -> list[np.ndarray]:
    """Divide all images at random into disjoint shares whose sizes differ by at most one."""
    order = _generator(seed, "iid").permutation(len(labels))
    return np.array_split(order, num_members)


def _dirichlet(
    labels: np.ndarray, num_members: int, config: DataConfig, num_classes: int, seed: int
) -> list[np.ndarray]:
    """Split each class into disjoint shares with proportions drawn from Dirichlet(alpha).

    A member without images receives one from the member that has the most, so that every member can
    train. This is rare: with common settings (alpha of 0.1 and above, hundreds of images per
    member), every member gets images.
    """
    owner = np.empty(len(labels), dtype=np.int64)  # the member that owns each image
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
            largest = max(range(num_members), key=lambda i: len(shares[i]))
            shares[member], shares[largest] = shares[largest][-1:], shares[largest][:-1]
    return shares


def _subset(
    labels: np.ndarray, num_members: int, config: DataConfig, num_classes: int, seed: int
) -> list[np.ndarray]:
    """Draw a random subset for each member; subsets of different members may overlap."""
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
