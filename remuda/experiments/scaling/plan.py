"""Plan the runs of a scaling experiment, with a fixed or a growing number of members."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from remuda.config import RunConfig
from remuda.engines.mpi.spans import spans
from remuda.errors import UserError


@dataclass(frozen=True)
class Case:
    """The run for one number of ranks."""

    ranks: int
    members: int
    config: RunConfig


def read_ranks(text: str) -> list[int]:
    """Return the numbers of ranks in a text such as ``1,2,4``, in ascending order."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise UserError(f"cannot read --ranks {text}: write numbers of ranks such as 1,2,4")
    numbers = sorted(set(map(int, words)))
    if numbers[0] != 1:
        raise UserError(
            f"--ranks {text} lacks 1, the baseline of the comparison: use --ranks 1,{text}"
        )
    return numbers


def cases(
    config: RunConfig, ranks: Sequence[int], weak: bool, rounds: int, num_classes: int
) -> list[Case]:
    """Return a case for each number of ranks. Raise if one of the cases cannot run."""
    if rounds < 2:
        raise UserError(
            f"--rounds must be at least 2, not {rounds}: the first round of a run is not timed"
        )
    if weak:
        grow(config, 1)  # raises for a strategy whose population cannot grow
        if config.strategy.steps_per_round == 0:
            raise UserError(
                "weak scaling needs a fixed number of steps per round: set it, "
                "for example with --set strategy.steps_per_round=50"
            )
    found = []
    for number in ranks:
        grown = grow(config, number) if weak else config
        members = grown.strategy.num_members(grown.run.members, num_classes)
        spans(members, number)  # raises if some ranks would have no member
        found.append(Case(number, members, _only_rounds(grown, number, rounds)))
    return found


def grow(config: RunConfig, ranks: int) -> RunConfig:
    """Return the configuration of a population that grows with the ranks.

    Each rank hosts as many members as the recipe has, or one member if the recipe does not set a
    number. A grid grows in height.
    """
    strategy, members = config.strategy.grow(ranks, config.run.members)
    return replace(config, strategy=strategy, run=replace(config.run, members=members))


def _only_rounds(config: RunConfig, ranks: int, rounds: int) -> RunConfig:
    """Return a configuration that only trains, and writes samples and a checkpoint at the end.

    If rank 0 wrote files between two rounds, the other ranks would start the next round before it.
    Each rank has one thread unless the configuration sets another number.
    """
    config = config.with_full_paths()
    return replace(
        config,
        engine=replace(config.engine, name="mpi", ranks=ranks, threads=config.engine.threads or 1),
        run=replace(
            config.run,
            rounds=rounds,
            checkpoint_every=0,
            checkpoint_minutes=math.inf,
            sample_every=rounds,
            keep_checkpoints=1,
            keep_best="",
            patience=0,
            max_minutes=0.0,
            trackers=(),
        ),
        scores=replace(config.scores, every=0),
    )
