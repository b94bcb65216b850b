"""What is run to see how a recipe scales: the same herd on more ranks, or a herd that grows with them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from remuda.config import RunConfig
from remuda.engines.mpi.spans import spans
from remuda.errors import UserError
from remuda.strategies import Cellular, Standalone


@dataclass(frozen=True)
class Case:
    """A run on so many ranks."""

    ranks: int
    members: int
    config: RunConfig


def read_ranks(text: str) -> list[int]:
    """Ascending numbers of ranks; 1 is what the others are compared with."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise UserError(
            f"--ranks {text}: write numbers of ranks with commas between them, such as 1,2,4"
        )
    numbers = sorted(set(map(int, words)))
    if numbers[0] != 1:
        raise UserError(
            f"--ranks {text} lacks 1, which the others are compared with: --ranks 1,{text}"
        )
    return numbers


def cases(
    config: RunConfig, ranks: Sequence[int], weak: bool, rounds: int, num_classes: int
) -> list[Case]:
    """A run for each number of ranks; what cannot be run is refused before anything is."""
    if rounds < 2:
        raise UserError(
            f"--rounds must be at least 2, not {rounds}: the first round of a run is not timed"
        )
    if weak and isinstance(config.strategy, Standalone):
        raise UserError(
            "standalone trains one member, which cannot grow with the ranks: choose another recipe"
        )
    if weak and config.strategy.steps_per_round == 0:
        raise UserError(
            "weak scaling wants the same work of every member whatever their number: fix it, for instance by "
            "--set strategy.steps_per_round=50"
        )
    found = []
    for number in ranks:
        grown = grow(config, number) if weak else config
        members = grown.strategy.num_members(grown.run.members, num_classes)
        spans(members, number)  # refuses more ranks than members
        found.append(Case(number, members, _alone_with_the_clock(grown, number, rounds)))
    return found


def grow(config: RunConfig, ranks: int) -> RunConfig:
    """The herd that has on so many ranks what the recipe's has on one: members, or the rows of a grid.

    Where the recipe leaves the number of members open, each rank has one.
    """
    if isinstance(config.strategy, Cellular):
        return replace(
            config, strategy=replace(config.strategy, height=ranks * config.strategy.height)
        )
    return replace(config, run=replace(config.run, members=ranks * max(1, config.run.members)))


def _alone_with_the_clock(config: RunConfig, ranks: int, rounds: int) -> RunConfig:
    """Nothing but rounds until the last one is over, and one thread a rank unless more are asked for.

    What rank 0 writes between two rounds, the others would have for a start in the next one.
    """
    return replace(
        config,
        data=config.data.with_full_paths(),
        engine=replace(config.engine, name="mpi", ranks=ranks, threads=config.engine.threads or 1),
        run=replace(
            config.run,
            rounds=rounds,
            checkpoint_every=rounds,
            sample_every=rounds,
            keep_checkpoints=1,
            tensorboard=False,
        ),
        scores=replace(config.scores, every=0),
    )
