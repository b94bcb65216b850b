"""Divide the data among the members, and check that all ranks have data of the same kind."""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from remuda.config import RunConfig
from remuda.data import DataConfig, Dataset, partition
from remuda.engines import ENGINES, Communicator
from remuda.errors import UserError
from remuda.record import DataFacts
from remuda.strategies import Strategy
from remuda.system.memory import available_bytes
from remuda.system.text import count


def share_groups(config: RunConfig, size: int) -> list[range]:
    """Return, for each member id, the numbers of the shares that the member uses."""
    return config.strategy.share_groups(size + len(config.run.lost), config.run.members)


def divide(
    config: RunConfig, dataset: Dataset, spans: list[range], communicator: Communicator
) -> list[Tensor]:
    """Return the indices of the images in each share; ``share_groups`` tells who uses which share.

    If every rank has its own data, each member has one share, and the shares of members on other
    ranks are empty.
    """
    size = spans[-1].stop
    num_ids = size + len(config.run.lost)
    num_shares = share_groups(config, size)[-1].stop
    data, num_classes = replace(config.data, partition=_kind(config)), len(dataset.classes)
    if not config.data.is_per_rank:
        return partition(dataset.labels, num_shares, data, num_classes, config.run.seed)
    if num_shares > num_ids:
        raise UserError(
            f"data.path gives each rank its own data, which cannot be divided into {num_shares} "
            f"shares for {count(size, 'member')}: leave strategy.discriminators at 0"
        )
    if not ENGINES[config.engine.name].spans_processes:
        raise UserError(
            "data.path names a folder for each rank, but this run has no ranks: use --engine mpi"
        )
    ids = config.run.member_ids(size)
    here = [ids[member] for member in spans[communicator.rank]]
    if data.partition == "class":
        own = [_images_of(member, dataset) for member in here]
    else:
        own = partition(dataset.labels, len(here), data, num_classes, config.run.seed)
    shares = dict(zip(here, own, strict=True))
    nothing = torch.empty(0, dtype=torch.int64)
    return [shares.get(member, nothing) for member in range(num_ids)]


def _kind(config: RunConfig) -> str:
    """Return the kind of partition. Raise a UserError if the strategy does not support it."""
    kind, suited = config.data.partition, config.strategy.partitions
    if kind == "auto":
        return suited[0]
    if kind not in suited:
        raise UserError(
            f"data.partition={kind} does not suit this strategy: use {' or '.join(suited)}"
        )
    return kind


def _images_of(label: int, dataset: Dataset) -> Tensor:
    images = torch.nonzero(dataset.labels == label).flatten()
    if len(images) == 0:
        raise UserError(
            f"class {label} has no images for its member: add some or change data.partition"
        )
    return images


def check_round(dataset: Dataset, strategy: Strategy, num_members: int, num_batches: int) -> None:
    """Raise if images are on disk, but those of two rounds do not fit into memory.

    One round trains while the images of the next are read.
    """
    free = available_bytes()
    num_images = num_members * num_batches * strategy.batch_size
    needed = num_images * math.prod(dataset.shape)
    if dataset.file is not None and free is not None and 2 * needed > free:
        fitting = max(1, strategy.steps_in(num_batches) * free // (4 * needed))
        raise UserError(
            f"the images of a round need {needed / 1e9:.1f} GB, and those of the next are read "
            f"meanwhile, but only {free / 1e9:.1f} GB of memory is free: set "
            f"strategy.steps_per_round to at most {fitting}"
        )


class Gathered(NamedTuple):
    """Facts about the data of all ranks."""

    sizes: list[int]  # number of images of each member
    class_counts: list[list[int]]  # by member and class; empty if the strategy does not need it
    facts: DataFacts


def gather_facts(
    config: RunConfig,
    dataset: Dataset,
    shares: list[Tensor],
    spans: list[range],
    communicator: Communicator,
) -> Gathered:
    """Return the sizes of the members' data, and a description of the data of all ranks."""
    size = spans[-1].stop
    ids, groups = config.run.member_ids(size), share_groups(config, size)
    images = [
        torch.cat([shares[number] for number in groups[ids[member]]])
        for member in spans[communicator.rank]
    ]
    own = {
        "shape": list(dataset.shape),
        "classes": list(dataset.classes),
        "counts": dataset.counts,
        "skipped": dataset.num_skipped,
        "sizes": [len(indices) for indices in images],
        "class_counts": [],
    }
    if config.strategy.needs_class_counts:
        own["class_counts"] = [_count_classes(dataset, indices) for indices in images]
    everyone = communicator.all_gather(own)
    for rank, other in enumerate(everyone):
        _check_same_kind(rank, other, everyone[0])
    sizes = [number for other in everyone for number in other["sizes"]]
    return Gathered(
        sizes=sizes,
        class_counts=[numbers for other in everyone for numbers in other["class_counts"]],
        facts=_facts(config.data, dataset, everyone, sizes),
    )


def _facts(
    data: DataConfig, dataset: Dataset, everyone: list[dict[str, Any]], sizes: list[int]
) -> DataFacts:
    name, counts, skipped = dataset.name, dataset.counts, dataset.num_skipped
    if data.is_per_rank:
        if data.is_images:
            name = data.name  # the name of the data set has the path of this rank
        skipped = sum(other["skipped"] for other in everyone)
        by_class = zip(*(other["counts"] for other in everyone), strict=True)
        counts = list(map(sum, by_class))
    return DataFacts(
        name=name,
        shape=dataset.shape,
        classes=list(dataset.classes),
        counts=counts,
        skipped=skipped,
        shares=sizes,
    )


def _count_classes(dataset: Dataset, images: Tensor) -> list[int]:
    return torch.bincount(dataset.labels[images], minlength=len(dataset.classes)).tolist()


def _check_same_kind(rank: int, other: dict[str, Any], first: dict[str, Any]) -> None:
    for name in ("shape", "classes"):
        if other[name] != first[name]:
            raise UserError(
                f"the data of rank {rank} differ from those of rank 0 in {name} "
                f"({_short(other[name])} instead of {_short(first[name])}): give all ranks images "
                "of the same shape with the same classes"
            )


def _short(values: list[Any]) -> str:
    ending = ", ..." if len(values) > 12 else ""
    return ", ".join(map(str, values[:12])) + ending
