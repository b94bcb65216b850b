"""Train pairs that share groups of layers and keep the others for themselves.

Shared tensors are equal in all members, because every update uses the mean of all members'
gradients, or because the members average the tensors after every k updates. A family is a set of
members that shares more groups of layers than the whole population does.
"""

from abc import ABC
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from remuda.data.batches import Batch
from remuda.data.images import to_unit
from remuda.engines.base import Engine, Pieces
from remuda.errors import UserError
from remuda.gan import Pair
from remuda.gan.lipschitz import vector_names
from remuda.gan.overrides import NO_OVERRIDES, Overrides
from remuda.gan.parts import PairNames, merge, split, split_dict
from remuda.strategies.context import Context, Metrics
from remuda.strategies.facts import Averaging
from remuda.strategies.pairs import StepInputs
from remuda.strategies.sharing_settings import SharingSettings, kinship
from remuda.tensors import trees
from remuda.tensors.functions import Partial
from remuda.tensors.trees import Tree

Tensors = dict[str, Tensor]


class PlayerTensors(NamedTuple):
    """Tensors of both players, by name."""

    generator: Tensors
    discriminator: Tensors


class Update(NamedTuple):
    """What a member computes for one update of one of its players."""

    gradients: PlayerTensors  # empty for the other player
    buffers: PlayerTensors  # the new buffers; empty if they did not change
    loss: Tensor


class SharedInputs(NamedTuple):
    """The inputs of one step of all pairs, with K updates of the discriminators."""

    own: StepInputs  # with one row per member
    families: Tensor  # (size, K): the same number for all members of a family


class SharedPairs(NamedTuple):
    """Pairs with common tensors."""

    common: Pair  # the shared tensors, without an axis of members; every process has all of them
    own: Pair  # all other tensors, with one row per member


@dataclass(frozen=True, kw_only=True)
class Sharing(SharingSettings, ABC):
    """Train pairs that share groups of layers."""

    # The state

    def init_shared(self, context: Context, engine: Engine) -> SharedPairs:
        """Return pairs with the same weights for all members."""
        if self.num_families and not self.families:
            raise UserError(
                "strategy.num_families: the families are not known yet; call for_classes with the "
                "distances between the classes, or set strategy.families"
            )
        first, names = self.first_pair(context), self.common_names(context)
        common, rest = split(first, names)
        related, _ = split(rest, self.family_names(context))

        def create(member: int) -> Pair:
            _, own = split(self.copy_pair(context, first, member), names)
            return merge(own, related)  # including the buffers that a family shares

        return SharedPairs(trees.to(common, engine.device), engine.create(create))

    def whole_pairs(self, engine: Engine, state: SharedPairs) -> Pair:
        """Return the whole pair of every member; rows of shared tensors are views."""
        return merge(_rows(state.common, len(engine.members)), state.own)

    def averaging(self, context: Context, every: int | None = None) -> Averaging | None:
        names, every = self.common_names(context), self.share_every if every is None else every
        if self.has_families or not any(names):  # sums over families have other sizes
            return None
        common, _ = split(self.first_pair(context), names)
        if every == 0:
            return Averaging(0, 0)
        if every > 1:  # all tensors
            return Averaging(1 / every, 4 * _size(common) / every)
        generator, discriminator, _ = common
        buffers = _size(generator.buffers) + _size(discriminator.buffers)
        numbers = self.discriminator_steps * (_size(discriminator.params) + buffers)
        numbers += _size(generator.params) + _size(discriminator.buffers)
        return Averaging(self.discriminator_steps + 1, 4 * numbers)

    # A round in which every update uses the mean of all gradients

    def share_gradients(
        self, context: Context, engine: Engine, state: SharedPairs, real: Batch, t: int
    ) -> tuple[SharedPairs, Metrics]:
        """Run round t."""
        inputs = self.step_inputs(context, engine, real, t)
        by_step = trees.map(lambda leaf: leaf.transpose(0, 1), inputs)
        # An input of every step, because a CUDA graph cannot copy numbers from the host.
        families = self.family_numbers(engine)[None, :, None]
        families = families.expand(len(by_step.keys), -1, self.discriminator_steps)
        pieces = Pieces(
            Partial(self.update_discriminators, context), Partial(self.update_generators, context)
        )
        inputs = SharedInputs(by_step, families)
        state, losses = engine.loop(Partial(self.step, context), state, inputs, pieces=pieces)
        metrics = trees.map(lambda x: x.mean(0), losses)
        return state, metrics | state.own.discriminator.metrics()

    def step(
        self, context: Context, engine: Engine, state: SharedPairs, now: SharedInputs
    ) -> tuple[SharedPairs, Metrics]:
        """Run one step; the tensors have the axes (members, discriminator steps, ...)."""
        losses, part = [], now
        for k in range(self.discriminator_steps):
            part = trees.map(lambda leaf, k=k: leaf[:, k], now)
            state, metrics = self.update_discriminators(context, engine, state, part)
            losses.append(metrics["discriminator_loss"])
        state, metrics = self.update_generators(context, engine, state, part)
        return state, {"discriminator_loss": torch.stack(losses).mean(0), **metrics}

    def update_discriminators(
        self, context: Context, engine: Engine, state: SharedPairs, now: SharedInputs
    ) -> tuple[SharedPairs, Metrics]:
        """Update every member's discriminator once."""
        gan = context.gan

        def compute(pair: Pair, now: StepInputs, overrides: Overrides) -> Update:
            fakes, buffers, _ = gan.generate(pair.generator, now.noise, now.labels)
            real = to_unit(now.images), now.labels
            gradients, others, loss = gan.discriminator_gradients(
                pair.discriminator, real, (fakes, now.labels), now.keys, overrides
            )
            return Update(PlayerTensors({}, gradients), PlayerTensors(buffers, others), loss)

        def apply(part: Pair, gradients: PlayerTensors, scheduled: Tensors) -> Pair:
            overrides = NO_OVERRIDES._replace(**scheduled)
            discriminator = gan.apply_to_discriminator(
                part.discriminator, gradients.discriminator, overrides
            )
            return part._replace(discriminator=discriminator)

        state, loss = self._update(context, engine, state, now, compute, apply)
        return state, {"discriminator_loss": loss}

    def update_generators(
        self, context: Context, engine: Engine, state: SharedPairs, now: SharedInputs
    ) -> tuple[SharedPairs, Metrics]:
        """Update every member's generator once, with the last batch of the discriminators."""
        gan = context.gan

        def compute(pair: Pair, now: StepInputs, overrides: Overrides) -> Update:
            fakes, _, pull = gan.generate(pair.generator, now.noise, now.labels)
            real = to_unit(now.images), now.labels
            discriminator, feedback, loss = gan.feedback(
                pair.discriminator, fakes, now.labels, overrides.loss, real
            )
            gradients = PlayerTensors(pull(feedback), {})
            return Update(gradients, PlayerTensors({}, discriminator.buffers), loss)

        def apply(part: Pair, gradients: PlayerTensors, scheduled: Tensors) -> Pair:
            overrides = NO_OVERRIDES._replace(**scheduled)
            generator = gan.apply_gradients(part.generator, gradients.generator, overrides)
            average = gan.update_average(part.average, generator, overrides)
            return part._replace(generator=generator, average=average)

        state, loss = self._update(context, engine, state, now, compute, apply)
        return state, {"generator_loss": loss}

    def _update(
        self,
        context: Context,
        engine: Engine,
        state: SharedPairs,
        now: SharedInputs,
        compute: Callable[[Pair, StepInputs, Overrides], Update],
        apply: Callable[[Pair, PlayerTensors, Tensors], Pair],
    ) -> tuple[SharedPairs, Tensor]:
        """Compute gradients for every member, average the shared ones, and apply all of them."""
        # Running statistics need a row per member, because each member changes them in place. All
        # other common tensors have no such axis, so that stacked members use them in one batch.
        statistics, fixed = split(state.common, _statistics(state.common))

        def member(own: Pair, statistics: Pair, now: StepInputs) -> Update:
            overrides = NO_OVERRIDES._replace(**now.scheduled)
            return compute(merge(fixed, merge(statistics, own)), now, overrides)

        rows = _rows(statistics, len(engine.members))
        gradients, buffers, loss = engine.map(member, state.own, rows, now.own)
        names = self.common_names(context)
        shared, own = zip(_divided(gradients, names), _divided(buffers, names), strict=True)
        everyone = torch.ones(engine.size, device=engine.device)
        shared = trees.row(engine.mean(shared, everyone, torch.float32), 0)
        own = self._average_in_families(context, engine, own, now.families)
        scheduled = now.own.scheduled
        common = _with_buffers(state.common, shared[1])
        common = apply(common, shared[0], trees.row(scheduled, 0))
        pairs = engine.map(apply, _with_buffers(state.own, own[1]), own[0], scheduled)
        return SharedPairs(common, pairs), loss

    def _average_in_families(
        self,
        context: Context,
        engine: Engine,
        parts: tuple[PlayerTensors, ...],
        families: Tensor,
    ) -> tuple[PlayerTensors, ...]:
        """Replace the tensors that families share by their means over each family."""
        if not self.families:
            return parts
        names = self.family_names(context)
        shared = tuple(_divided(part, names)[0] for part in parts)
        means = engine.mean(shared, kinship(families), torch.float32)
        return tuple(
            PlayerTensors(old.generator | new.generator, old.discriminator | new.discriminator)
            for old, new in zip(parts, means, strict=True)
        )

    # A round in which shared tensors are averaged after every k updates

    def share_tensors(
        self, context: Context, engine: Engine, state: SharedPairs, real: Batch, t: int
    ) -> tuple[SharedPairs, Metrics]:
        """Run round t."""
        pairs, names = self.whole_pairs(engine, state), self.common_names(context)
        inputs = self.step_inputs(context, engine, real, t)
        everyone = torch.ones(engine.size, device=engine.device)
        losses: list[Metrics] = []
        for part in _chunks(inputs, self.share_every):
            pairs, found = self.train_steps(context, engine, pairs, part)
            losses.append(found)
            common, own = split(pairs, names)
            common = engine.mean(common, everyone, torch.float32)
            if self.families:
                related, own = split(own, self.family_names(context))
                weights = kinship(self.family_numbers(engine))
                own = merge(engine.mean(related, weights, torch.float32), own)
            pairs = merge(common, own)
        common, own = split(pairs, names)
        metrics = trees.map(lambda *parts: torch.cat(parts, 1).mean(1), *losses)
        state = SharedPairs(trees.row(common, 0), own)
        return state, metrics | own.discriminator.metrics()


def _size(tree: Tree) -> int:
    """Return how many floating-point numbers a tree has."""
    return sum(leaf.numel() for leaf in trees.leaves(tree) if leaf.is_floating_point())


def _statistics(pair: Pair) -> PairNames:
    """Return the names of all buffers except singular vectors."""
    return PairNames(
        *(
            frozenset(player.buffers) - vector_names(player.buffers)
            for player in (pair.generator, pair.discriminator)
        )
    )


def _rows(tree: Tree, num_rows: int) -> Tree:
    """Return rows that all equal this tree, as views."""
    return trees.map(lambda leaf: leaf.expand(num_rows, *leaf.shape), tree)


def _divided(tensors: PlayerTensors, names: PairNames) -> tuple[PlayerTensors, PlayerTensors]:
    """Return the tensors with these names, and the others."""
    parts = [split_dict(*each) for each in zip(tensors, names, strict=True)]
    chosen, rest = zip(*parts, strict=True)
    return PlayerTensors(*chosen), PlayerTensors(*rest)


def _with_buffers(pair: Pair, buffers: PlayerTensors) -> Pair:
    """Return a part of a pair with these new buffers; no buffers mean no change."""
    generator, discriminator = pair.generator, pair.discriminator
    return pair._replace(
        generator=generator._replace(buffers=generator.buffers | buffers.generator),
        discriminator=discriminator._replace(buffers=discriminator.buffers | buffers.discriminator),
    )


def _chunks(inputs: StepInputs, length: int) -> Iterator[StepInputs]:
    """Divide the steps of a round, (members, steps, ...), into chunks of this length."""
    for start in range(0, inputs.labels.shape[1], length):
        yield trees.map(lambda leaf, a=start: leaf[:, a : a + length], inputs)
