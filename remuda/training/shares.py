"""Divide the data among the members, and check that all ranks have data of the same kind."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from remuda.config import RunConfig
from remuda.data import Dataset, partition
from remuda.engines import ENGINES, Communicator
from remuda.errors import UserError
from remuda.record import DataFacts
from remuda.system.text import count
from remuda.training.failures import data_ranks


def data_rank(config: RunConfig, communicator: Communicator) -> int:
    """Return the rank whose data this process uses.

    If every rank has its own data, members keep the data with which they started.
    """
    ranks = data_ranks(config) or communicator.original_ranks
    if len(ranks) != communicator.num_ranks:
        raise UserError(
            f"the data of this run belong to ranks {', '.join(map(str, ranks))}, but this job has "
            f"{count(communicator.num_ranks, 'rank')}: use --ranks {len(ranks)}, or divide the "
            "data again with --members"
        )
    return ranks[communicator.rank]


def divide(
    config: RunConfig, dataset: Dataset, spans: list[range], communicator: Communicator
) -> list[Tensor]:
    """Return, for each member id, the indices of the images that the member trains on.

    If every rank has its own data, the shares of members on other ranks are empty.
    """
    size = spans[-1].stop
    num_ids = size + len(config.run.lost)
    data, num_classes = replace(config.data, partition=_kind(config)), len(dataset.classes)
    if not config.data.is_per_rank:
        return partition(dataset.labels, num_ids, data, num_classes, config.run.seed)
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


def gather_facts(
    config: RunConfig,
    dataset: Dataset,
    shares: list[Tensor],
    spans: list[range],
    communicator: Communicator,
) -> tuple[list[int], DataFacts]:
    """Return the size of every member's share, and a description of the data of all ranks."""
    ids = config.run.member_ids(spans[-1].stop)
    own = {
        "shape": list(dataset.shape),
        "classes": list(dataset.classes),
        "counts": dataset.counts,
        "sizes": [len(shares[ids[member]]) for member in spans[communicator.rank]],
    }
    everyone = communicator.all_gather(own)
    for rank, other in enumerate(everyone):
        _check_same_kind(rank, other, everyone[0])
    counts = dataset.counts
    if config.data.is_per_rank:
        by_class = zip(*(other["counts"] for other in everyone), strict=True)
        counts = [sum(numbers) for numbers in by_class]
    sizes = [size for other in everyone for size in other["sizes"]]
    facts = DataFacts(name=dataset.name, shape=dataset.shape, classes=own["classes"], counts=counts)
    return sizes, facts


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
