"""A cost model: what a round takes on more ranks than are here.

    seconds(R) = member * n(R) + server + sum over verbs of calls * messages(R) * latency + bytes(R) / bandwidth

n(R) is the number of members on the busiest rank; ``member`` and ``server`` are the seconds of one rank's run, those of
the verbs scatter and gather being the server's. Messages and bytes are those that pass the busiest rank one after the
other: docs/scaling.md has them verb by verb.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from remuda.config import RunConfig
from remuda.engines.mpi.spans import spans
from remuda.experiments.scaling.measure import Measured
from remuda.experiments.scaling.plan import grow
from remuda.population import derangement
from remuda.population.topology import neighbourhoods
from remuda.strategies import Cellular
from remuda.tensors import random

SERVER = ("scatter", "gather")  # verbs with work that no rank takes off rank 0


@dataclass(frozen=True)
class Link:
    """Between two ranks, as measured by ``remuda doctor``."""

    latency: float  # seconds of a small message
    bandwidth: float  # bytes a second, each way, both ways at once


@dataclass(frozen=True)
class Costs:
    """Of a round; bytes are those of one member's rows."""

    member: float  # seconds of one member, its draws and its share of local copies included
    server: float  # seconds
    calls: Mapping[str, float]  # of each verb
    row_bytes: Mapping[
        str, float
    ]  # that a member sends or receives by each verb, of a take by each row taken


@dataclass(frozen=True)
class Prediction:
    ranks: int
    members: int
    work: float  # seconds of members and server
    messages: Mapping[
        str, float
    ]  # seconds by verb; "end": losses, and the agreement that the round is over

    @property
    def seconds(self) -> float:
        return self.work + sum(self.messages.values())


def costs_of(alone: Measured, table: Tensor) -> Costs:
    """From the run on one rank; the table says who takes from whom."""
    server = sum(alone.verbs.get(verb, 0.0) for verb in SERVER)
    foreign = int((table != torch.arange(len(table))[:, None]).sum())
    size, sent = alone.members, alone.traffic
    row_bytes = {
        "scatter": sent.get("scatter down", 0.0) / size,
        "gather": sent.get("gather up", 0.0) / size,
        "mean": 2 * sent.get("mean down", 0.0) / size,  # ranks add in double precision
        "take": sent.get("take across", 0.0) / max(1, foreign),
    }
    return Costs((alone.median - server) / size, server, alone.calls, row_bytes)


def predict(costs: Costs, link: Link, ranks: int, table: Tensor) -> Prediction:
    """Of a herd whose members take from each other by that table (members, K)."""
    size = len(table)
    num_here = -(-size // ranks)
    if ranks == 1:
        return Prediction(1, size, costs.member * size + costs.server, {})
    steps = 2 * math.ceil(math.log2(ranks))  # of a sum over all ranks: halves to and fro
    taken, rows = crossing(table, ranks)
    foreign = size - num_here
    loads = {  # messages of a call, and rows' worth of bytes of the round, at the busiest rank
        "scatter": (ranks - 1, foreign),
        "gather": (ranks - 1, foreign),
        "mean": (steps, 2 * (ranks - 1) / ranks),
        "take": (taken, rows),
    }
    messages = {
        verb: costs.calls[verb] * num * link.latency
        + amount * costs.row_bytes[verb] / link.bandwidth
        for verb, (num, amount) in loads.items()
        if costs.calls.get(verb)
    }
    messages["end"] = (ranks - 1 + steps) * link.latency
    return Prediction(ranks, size, costs.member * num_here + costs.server, messages)


def crossing(table: Tensor, ranks: int) -> tuple[int, int]:
    """Messages and rows that reach the busiest rank when members take by a table; a rank needs a row once."""
    size = len(table)
    host = torch.repeat_interleave(torch.tensor([len(span) for span in spans(size, ranks)]))
    receiver, sender = host[:, None].expand_as(table), host[table]
    comes = receiver != sender
    if not comes.any():
        return 0, 0
    pairs = torch.unique(receiver[comes] * ranks + sender[comes]) // ranks
    rows = torch.unique(receiver[comes] * size + table[comes]) // size
    return int(torch.bincount(pairs).max()), int(torch.bincount(rows).max())


def table_of(config: RunConfig, size: int) -> Tensor:
    """(size, K): who takes from whom; off a grid, everyone from another one, drawn at random."""
    if isinstance(config.strategy, Cellular):
        return neighbourhoods(*config.strategy.grid, config.strategy.neighbourhood)
    return derangement(random.key(config.run.seed, "swap", 1), torch.ones(size, dtype=torch.bool))[
        :, None
    ]


def predict_all(
    config: RunConfig, alone: Measured, link: Link, ranks: list[int], weak: bool
) -> list[Prediction]:
    """For the ranks that the herd has members for; a herd that grows has them always."""
    costs = costs_of(alone, table_of(config, alone.members))
    found = []
    for number in ranks:
        size = number * alone.members if weak else alone.members
        if number <= size:
            table = table_of(grow(config, number) if weak else config, size)
            found.append(predict(costs, link, number, table))
    return found
