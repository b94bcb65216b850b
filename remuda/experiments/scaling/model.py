"""Predict the time of a round on more ranks than are available, with a cost model.

    seconds(R) = member * n(R) + server
                 + sum over verbs of (calls * messages(R) * latency + bytes(R) / bandwidth)

n(R) is the number of members on the busiest rank. ``member`` and ``server`` come from the run on
one rank. ``server`` is the time of the verbs scatter and gather. Messages and bytes are counted at
the busiest rank, which handles them one after the other. docs/scaling.md lists them for each verb.
If ranks add up numbers more slowly than they exchange them, the bytes of mean have that speed.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from remuda.config import RunConfig
from remuda.engines.mpi.spans import spans
from remuda.errors import UserError
from remuda.experiments.scaling.measure import Measured
from remuda.experiments.scaling.plan import grow
from remuda.strategies.facts import Averaging

SERVER = ("scatter", "gather")  # verbs whose work stays on rank 0, for any number of ranks
LINK = re.compile(r"(\d+(?:\.\d+)?)([kmg])bit(?:,(\d+(?:\.\d+)?)(us|ms))?", re.IGNORECASE)
PAYLOAD = 1448 / 1538  # bytes of a message per byte on the wire, for TCP over Ethernet
TYPICAL_LATENCY = 1e-4  # seconds of a small message over Ethernet


@dataclass(frozen=True)
class Link:
    """The connection between two ranks, as measured by ``remuda doctor``."""

    latency: float  # seconds of a small message
    bandwidth: float  # bytes per second in each direction, with both in use
    # Bytes per second of numbers that are added up over all ranks; 0: as fast as other messages.
    adding: float = 0.0

    @property
    def rates(self) -> dict[str, float]:
        """The bytes per second of the verbs that differ from the bandwidth."""
        return {"mean": min(self.bandwidth, self.adding or self.bandwidth)}

    @classmethod
    def read(cls, text: str) -> "Link":
        """Return the link that a text such as ``100mbit`` or ``1gbit,0.2ms`` describes."""
        words = LINK.fullmatch(text.strip())
        if words is None or float(words[1]) == 0:
            raise UserError(
                f"cannot read --link {text}: write a rate such as 100mbit, and optionally the "
                "latency of a message, such as 100mbit,0.2ms"
            )
        rate = float(words[1]) * {"k": 1e3, "m": 1e6, "g": 1e9}[words[2].lower()]
        latency = TYPICAL_LATENCY
        if words[3]:
            latency = float(words[3]) * {"us": 1e-6, "ms": 1e-3}[words[4].lower()]
        return cls(latency, rate / 8 * PAYLOAD)


@dataclass(frozen=True)
class Costs:
    """The costs of one round."""

    member: float  # seconds of one member, including its draws and its share of local copies
    server: float  # seconds
    calls: Mapping[str, float]  # number of calls of each verb
    # bytes that one member sends or receives in each verb; for take: bytes of each row taken
    row_bytes: Mapping[str, float]

    def averaging(self, own: Averaging, other: Averaging, updates: int, seconds: float) -> "Costs":
        """Return the costs of a round in which members average another amount than their own.

        ``updates`` is the number of generator updates in a round, which ends with an average.
        ``seconds`` is the part of ``member`` that members need to average their own amount in one
        process. It is proportional to the bytes.
        """
        before, after = own.in_round(updates), other.in_round(updates)
        return replace(
            self,
            member=self.member + (after.bytes / before.bytes - 1) * seconds,
            calls={**self.calls, "mean": after.calls},
            row_bytes={**self.row_bytes, "mean": after.bytes},
        )


@dataclass(frozen=True)
class Prediction:
    """The predicted time of a round on a number of ranks."""

    ranks: int
    members: int
    work: float  # seconds of members and server
    messages: Mapping[str, float]  # seconds by verb; "end": collecting losses and agreeing

    @property
    def seconds(self) -> float:
        """The predicted seconds of a round."""
        return self.work + sum(self.messages.values())

    @property
    def share(self) -> float:
        """The messages' share of the time."""
        return sum(self.messages.values()) / self.seconds

    def after(self, seconds: float, other: "Prediction") -> "Prediction":
        """Return the prediction for the same ranks, after they took ``seconds`` over other links.

        The measured time, without the messages that ``other`` predicts for these links, replaces
        the predicted work. It includes the effects of ranks that share cores or wait for others.
        """
        return replace(self, work=max(0.0, seconds - sum(other.messages.values())))


def costs_of(one_rank: Measured, table: Tensor) -> Costs:
    """Derive the costs from the run on one rank; ``table`` lists which members exchange rows."""
    server = sum(one_rank.verbs.get(verb, 0.0) for verb in SERVER)
    num_foreign = int((table != torch.arange(len(table))[:, None]).sum())
    size, sent = one_rank.members, one_rank.traffic
    row_bytes = {
        "scatter": sent.get("scatter down", 0.0) / size,
        "gather": sent.get("gather up", 0.0) / size,
        "mean": 2 * sent.get("mean down", 0.0) / size,  # ranks add in double precision
        "take": sent.get("take across", 0.0) / max(1, num_foreign),
    }
    return Costs((one_rank.median - server) / size, server, one_rank.calls, row_bytes)


def predict(costs: Costs, link: Link, ranks: int, table: Tensor) -> Prediction:
    """Predict the time of a round if members exchange rows according to ``table`` (members, K)."""
    num_here = -(-len(table) // ranks)
    work = costs.member * num_here + costs.server
    return Prediction(ranks, len(table), work, time_messages(costs, link, ranks, table))


def time_messages(costs: Costs, link: Link, ranks: int, table: Tensor) -> dict[str, float]:
    """Return the seconds per round that each verb's messages take at the busiest rank."""
    if ranks == 1:
        return {}
    size = len(table)
    num_here = -(-size // ranks)
    steps = 2 * math.ceil(math.log2(ranks))  # steps of a sum over all ranks: halving, then doubling
    num_senders, num_rows = crossing(table, ranks)
    num_foreign = size - num_here
    loads = {  # at the busiest rank: messages per call, and rows' worth of bytes per round
        "scatter": (ranks - 1, num_foreign),
        "gather": (ranks - 1, num_foreign),
        "mean": (steps, 2 * (ranks - 1) / ranks),
        "take": (num_senders, num_rows),
    }
    messages = {
        verb: costs.calls[verb] * number * link.latency
        + amount * costs.row_bytes[verb] / link.rates.get(verb, link.bandwidth)
        for verb, (number, amount) in loads.items()
        if costs.calls.get(verb)
    }
    messages["end"] = (ranks - 1 + steps) * link.latency
    return messages


def crossing(table: Tensor, ranks: int) -> tuple[int, int]:
    """Return how many messages and rows the busiest rank receives when members take rows.

    ``table`` lists the rows that each member takes. A rank receives each row at most once.
    """
    size = len(table)
    host = torch.repeat_interleave(torch.tensor([len(span) for span in spans(size, ranks)]))
    receiver, sender = host[:, None].expand_as(table), host[table]
    crosses = receiver != sender
    if not crosses.any():
        return 0, 0
    pairs = torch.unique(receiver[crosses] * ranks + sender[crosses]) // ranks
    rows = torch.unique(receiver[crosses] * size + table[crosses]) // size
    return int(torch.bincount(pairs).max()), int(torch.bincount(rows).max())


def predict_all(
    config: RunConfig,
    one_rank: Measured,
    link: Link,
    ranks: list[int],
    weak: bool,
    averagings: tuple[Averaging, Averaging] | None = None,
) -> list[Prediction]:
    """Predict the time of a round for each number of ranks that gives every rank a member.

    ``averagings`` contains how much members averaged on one rank, and how much they average here.
    """
    costs = costs_of(one_rank, _table(config, one_rank.members))
    if averagings:
        seconds = one_rank.verbs.get("mean", 0.0) / one_rank.members
        costs = costs.averaging(*averagings, one_rank.updates, seconds)
    found = []
    for number in ranks:
        size = number * one_rank.members if weak else one_rank.members
        if number <= size:
            table = _table(grow(config, number) if weak else config, size)
            found.append(predict(costs, link, number, table))
    return found


def _table(config: RunConfig, size: int) -> Tensor:
    return config.strategy.exchange_table(size, config.run.seed)
