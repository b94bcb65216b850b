"""What a run does when it loses ranks, with the members that they host."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from remuda.config import RunConfig
from remuda.engines.communicator import Lost
from remuda.engines.mpi.spans import spans
from remuda.errors import UserError

Action = Literal["drop", "move", "stop"]


def action(config: RunConfig) -> Action:
    """What ``engine.on_failure`` comes to, or a UserError where that cannot be."""
    wanted, suited = config.engine.on_failure, config.strategy.on_failure
    if wanted == "drop" and suited != "drop":
        raise UserError(
            "engine.on_failure=drop: this strategy cannot go on without some of its members: use move or stop"
        )
    if wanted == "move" and config.data.is_per_rank:
        raise UserError(
            "engine.on_failure=move: members that move to another rank cannot take the data along, which data.path "
            "says each rank has for itself: use drop or stop"
        )
    if wanted != "auto":
        return wanted
    return "stop" if suited == "move" and config.data.is_per_rank else suited


def hosted(
    config: RunConfig, num_members: int, seats: Sequence[int], ranks: Sequence[int]
) -> list[int]:
    """Numbers, as before any loss, of the members that some of the ranks host; ``seats`` are all ranks in order."""
    sites = config.run.sites(num_members)
    parts = zip(seats, spans(num_members, len(seats)), strict=True)
    return [sites[member] for rank, span in parts if rank in ranks for member in span]


def without(config: RunConfig, num_members: int, lost: Sequence[int]) -> RunConfig:
    """The run of so many members when it has lost these."""
    gone = tuple(sorted([*config.run.lost, *lost]))
    return replace(config, run=replace(config.run, members=num_members - len(lost), lost=gone))


def with_homes(config: RunConfig, ranks: Sequence[int]) -> RunConfig:
    """The run whose members have the data of these ranks, where each rank has its own."""
    return (
        replace(config, data=replace(config.data, ranks=tuple(ranks)))
        if config.data.is_per_rank
        else config
    )


def homes(config: RunConfig) -> list[int]:
    """The ranks whose data are in use, where each has its own: those of the start that have not lost all members."""
    if not (config.run.lost and config.data.ranks):
        return list(config.data.ranks)
    spread = spans(config.run.members + len(config.run.lost), len(config.data.ranks))
    return [
        rank
        for rank, span in zip(config.data.ranks, spread, strict=True)
        if not set(span) <= set(config.run.lost)
    ]


def names(ranks: Sequence[Lost]) -> str:
    """Such as "rank 1 on node7 and rank 2 on node8 were lost"."""
    each = [f"rank {lost.rank} on {lost.host}" for lost in ranks]
    return _listed(each) + (" was lost" if len(each) == 1 else " were lost")


def fate(members: Sequence[int], chosen: Action) -> str:
    """What becomes of the members, for the user."""
    if not members:
        return "no member was lost"
    who = ("member " if len(members) == 1 else "members ") + _listed(
        [str(member) for member in members]
    )
    if chosen == "drop":
        return f"going on without {who}"
    return f"{who} {'moves' if len(members) == 1 else 'move'} to the ranks that are left, from the last checkpoint"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
