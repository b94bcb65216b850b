"""A run that is ready to train: its data, strategy and engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from remuda.data.batches import Batches
from remuda.engines import Communicator, Engine, Metered
from remuda.engines.racing import Arrival
from remuda.model.model import Model
from remuda.record import DataFacts, checkpoints
from remuda.record.checkpoints import Checkpoint, Leaves
from remuda.strategies import Context, Strategy
from remuda.strategies.context import Report, facts_of
from remuda.tensors import trees
from remuda.tensors.trees import Tree

DIGITS = 5  # decimals of recorded facts, such as weights of mixtures


@dataclass(frozen=True, kw_only=True)
class Herd:
    """Everything that a training loop needs, except the state."""

    strategy: Strategy
    context: Context
    engine: Metered
    communicator: Communicator
    batches: Batches
    facts: DataFacts
    num_batches: int  # batches of real data per member and round
    member_ids: list[int]  # by position in the population; ids do not change when ranks fail
    spans: list[range]  # by rank: the positions of the members that it hosts
    lost: tuple[int, ...] = ()  # the ids of members that were lost with their ranks
    recorded: Mapping[int, Sequence[Arrival]] | None = None  # by round: the order to repeat

    @property
    def num_steps(self) -> int:
        """The number of generator updates per member and round."""
        return self.strategy.steps_in(self.num_batches)

    @property
    def num_labels(self) -> int:
        """The number of labels that the trained model knows."""
        return self.strategy.num_labels(self.context.gan, self.engine.size)

    @property
    def hosted_ids(self) -> list[int]:
        """The ids of the members that this process hosts."""
        return [self.member_ids[member] for member in self.engine.members]

    @property
    def images_per_round(self) -> int:
        """The number of real images per round, summed over all members."""
        return self.engine.size * self.num_batches * self.strategy.batch_size

    def start(self) -> Any:
        """Return the state before the first round."""
        return self.strategy.init(self.context, self.engine)

    def restore(self, checkpoint: Checkpoint) -> Any:
        """Return the state of a checkpoint. Each process reads only the rows of its members."""
        start = self.start()
        rows = self.source_rows(checkpoints.members(checkpoint))
        source = [rows[member] for member in self.engine.members]
        fresh = {}
        for name, leaf in Leaves.of(self.strategy, start).rows.items():
            places = self.new_places(rows, name, leaf)
            fresh[name] = places, leaf[places]
        like = trees.to(start, "meta")
        del start  # only the rows of new members stay in memory
        leaves = Leaves.of(self.strategy, like)
        read = [row or 0 for row in source]  # new members replace theirs
        tables = self.strategy.server_tables
        found = checkpoints.read(checkpoint, leaves, read, self.engine.device, tables)
        for name, (places, leaf) in fresh.items():
            found[name][places] = leaf
        return trees.fill(like, found)

    def new_places(self, rows: list[int | None], name: str, leaf: Tensor) -> list[int]:
        """Return the places of this process's members that start with their own row of a leaf.

        The others continue with saved rows. A copy of a member has its own random streams:
        otherwise, both would draw the same numbers. ``rows`` is what ``source_rows`` returns.
        """
        is_stream = _is_stream(name, leaf)
        return [
            i
            for i, k in enumerate(self.engine.members)
            if rows[k] is None or (is_stream and rows.index(rows[k]) < k)
        ]

    def source_rows(self, saved: list[int]) -> list[int | None]:
        """Return the saved row that each member continues with, or None if it starts fresh.

        ``saved`` holds the saved ids.
        """
        if saved == self.member_ids:
            return list(range(len(saved)))
        gone = set(saved) - set(self.member_ids)
        is_older_than_failure = set(self.member_ids) < set(saved) and gone <= set(self.lost)
        if self.strategy.on_failure == "drop" and is_older_than_failure:
            return [saved.index(member) for member in self.member_ids]
        return self.strategy.resize(len(saved), self.engine.size)

    def round(self, state: Any, t: int) -> tuple[Any, dict[str, Any]]:
        """Run round t. Return the new state and, on rank 0, the report on all members."""
        state, metrics = self.step(state, t)
        return state, self.report(metrics)

    def step(self, state: Any, t: int) -> tuple[Any, dict[str, Tensor]]:
        """Run round t. Return the new state and the metrics of this process's members.

        Their facts name members by ids, because positions change if members are lost before the
        report.
        """
        self.engine.reset()
        if self.recorded is not None:
            rounds = (self.recorded[u] for u in sorted(self.recorded) if u > t)
            self.engine.follow(self.recorded[t], chain.from_iterable(rounds))
        real = self.strategy.draw(self.batches, t, self.num_batches)
        state, metrics = self.strategy.round(self.context, self.engine, state, real, t)
        return state, Report(metrics, trees.map(self._with_ids, facts_of(metrics)))

    def _with_ids(self, leaf: Tensor) -> Tensor:
        """Replace positions of members by their ids; fractions, such as weights, stay."""
        if leaf.is_floating_point():
            return leaf
        return torch.tensor(self.member_ids, device=leaf.device)[leaf]

    def report(self, metrics: dict[str, Tensor]) -> dict[str, Any]:
        """Return the metrics of all members on rank 0, and an empty dict on other ranks.

        Metrics are lists. The facts that a strategy has added are nested lists or dicts.
        """
        own = dict(metrics), facts_of(metrics)
        everyone = self._unmetered.gather(lambda _, rows: rows, (), own)
        if not everyone:
            return {}
        found, facts = everyone
        values = {name: rows.tolist() for name, rows in found.items()}
        return values | {name: self._plain(tree) for name, tree in facts.items()}

    def _plain(self, facts: Tree) -> Any:
        """Return facts in the form of the record."""
        if isinstance(facts, dict):
            return {name: self._plain(tree) for name, tree in facts.items()}
        if facts.is_floating_point():
            return [[round(number, DIGITS) for number in row] for row in facts.tolist()]
        return facts.tolist()

    @property
    def _unmetered(self) -> Engine:
        """The engine without the meter, for bookkeeping that is not traffic of the algorithm."""
        return self.engine.engine

    def traffic(self) -> dict[str, int]:
        """Return the bytes sent in the last round, by verb and direction."""
        sent = self.engine.bytes.items()
        return {f"{verb} {direction}": number for (verb, direction), number in sent if number}

    def routines(self) -> dict[str, float]:
        """Return the seconds that each routine took in the last round.

        The dict is empty if the strategy does not name any routines.
        """
        return {name: round(seconds, 4) for name, seconds in self.engine.seconds.items()}

    def model(self, state: Any, t: int) -> Model:
        """Return the model after round t."""
        return Model(
            strategy=self.strategy,
            context=self.context,
            state=state,
            engine=self._unmetered,
            communicator=self.communicator,
            facts=self.facts,
            num_labels=self.num_labels,
            round=t,
        )


def _is_stream(name: str, leaf: Tensor) -> bool:
    """Return whether a leaf of a state is the key of a network's random stream."""
    return "buffers" in name.split("/") and not leaf.is_floating_point()
