"""Several generators against several discriminators: all judged by all, each trained against drawn opponents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.func import vmap

from remuda.gan.losses import MUSTANGS, drawn_loss
from remuda.gan.players import Pair, Player, apply, blend
from remuda.gan.step import GAN, Rules
from remuda.tensors import random, trees
from remuda.tensors.trees import Tree

Drawing = Literal["none", "creation", "update"]  # when a generator's loss is drawn


class Generator(NamedTuple):
    """What a generator takes along: its optimizer's moments are the player's."""

    player: Player
    average: dict[str, Tensor]
    lr: Tensor
    loss: Tensor  # (3,), one for the loss of MUSTANGS that was drawn at its creation


class Discriminator(NamedTuple):
    player: Player
    lr: Tensor


class Sides(NamedTuple):
    """Leaves have a leading axis of individuals."""

    generators: Generator
    discriminators: Discriminator


class Turns(NamedTuple):
    """What is played with, batch after batch: a leading axis n."""

    images: Tensor  # (n, b, C, H, W) in [-1, 1]
    labels: Tensor  # (n, b)
    noise: Tensor  # (n, b, latent)
    keys: Tensor  # (n,)
    rivals: (
        Tensor  # (n, individuals, 2): the generator that each discriminator meets, and the reverse
    )
    losses: Tensor  # (n, individuals, 3): which loss each generator has, where it is drawn for every update


@dataclass(frozen=True, eq=False)
class Contest:
    """Rules of a GAN for several of each side.

    Of the n batches of some turns, discriminators learn from the first ``discriminator_steps``, generators from the
    last of these and from all that follow.
    """

    gan: GAN
    discriminator_steps: int
    own_rates: bool  # whether individuals have learning rates of their own
    drawing: Drawing

    def enter(self, keys: Sequence[int]) -> Sides:
        """One new individual of each side for every key."""
        pairs = trees.stack([self.gan.init(key) for key in keys])
        drawn = [random.key(key, "loss") % len(MUSTANGS) for key in keys]
        rates = torch.ones(2, len(keys))
        rates[0] *= self.gan.generator_optimizer.lr
        rates[1] *= self.gan.discriminator_optimizer.lr
        generators = Generator(
            pairs.generator, pairs.average, rates[0], torch.eye(len(MUSTANGS))[drawn]
        )
        return Sides(generators, Discriminator(pairs.discriminator, rates[1]))

    def losses(
        self,
        generators: Player,
        discriminators: Player,
        images: Tensor,
        labels: Tensor,
        noise: Tensor,
        key: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """All against all, by what they are trained for: the generators' losses (G, D), the discriminators' (D, G)."""
        gan = self.gan

        def judged(judge: Player, shown: Tensor) -> Tensor:
            return apply(gan.discriminator, judge.params, judge.buffers, shown, labels)[0]

        def penalised(judge: Player, shown: Tensor) -> Tensor:
            return gan.penalty_of(judge.params, judge.buffers, images, shown, labels, key)

        def with_all(fn: Callable[[Player, Tensor], Tensor]) -> Callable[[Player], Tensor]:
            def with_each(judge: Player) -> Tensor:
                copies = trees.map(
                    lambda leaf: leaf.expand(len(fakes), *leaf.shape), judge
                )  # running statistics move
                return vmap(fn)(copies, fakes)

            return with_each

        fakes = vmap(lambda g: apply(gan.generator, g.params, g.buffers, noise, labels)[0])(
            generators
        )
        on_real = vmap(lambda judge: judged(judge, images))(discriminators)  # (D, b, ...)
        on_fakes = vmap(with_all(judged))(discriminators)  # (D, G, b, ...)
        of_discriminators = vmap(
            lambda real, row: vmap(lambda fake: gan.discriminator_loss(real, fake, labels, labels))(
                row
            )
        )(on_real, on_fakes)
        if gan.lipschitz == "penalty":
            of_discriminators = of_discriminators + vmap(with_all(penalised))(discriminators)
        return vmap(vmap(lambda fake: gan.generator_loss(fake, labels)))(
            on_fakes
        ).T, of_discriminators

    def fitnesses(
        self,
        sides: Sides,
        measure: Callable[[Tensor], Tensor],
        images: Tensor,
        labels: Tensor,
        key: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Of each generator and each discriminator: the measure of its losses (individuals, opponents)."""
        noise = random.normal(key, (len(labels), self.gan.networks.latent))
        players = sides.generators.player, sides.discriminators.player
        of_generators, of_discriminators = self.losses(
            *players, images, labels, noise, random.fold(key, 1)
        )
        return measure(of_generators), measure(of_discriminators)

    def train(
        self, sides: Sides, others: Sides | None, turns: Turns
    ) -> tuple[Sides, dict[str, Tensor]]:
        """Everybody plays these turns; rivals come from one's own, and the others' numbers follow behind them."""
        num = len(sides.generators.lr)
        if num == 1 and others is None:
            return self._train_pair(sides, turns)
        generators = [trees.row(sides.generators, i) for i in range(num)]
        discriminators = [trees.row(sides.discriminators, i) for i in range(num)]
        costs: dict[str, list[Tensor]] = {"discriminator_loss": [], "generator_loss": []}
        for n in range(len(turns.keys)):
            turn = trees.row(turns, n)
            for i in range(num):
                if n < self.discriminator_steps:
                    rival = _pick(
                        generators, others and others.generators, turn.rivals[i, 0]
                    ).player
                    discriminators[i], cost = self._train_discriminator(
                        discriminators[i], rival, turn, i
                    )
                    costs["discriminator_loss"].append(cost)
                if n >= self.discriminator_steps - 1:
                    rival = _pick(
                        discriminators, others and others.discriminators, turn.rivals[i, 1]
                    ).player
                    generators[i], cost = self._train_generator(generators[i], rival, turn, i)
                    costs["generator_loss"].append(cost)
        sides = Sides(trees.stack(generators), trees.stack(discriminators))
        return sides, {name: torch.stack(values).mean() for name, values in costs.items()}

    def _train_discriminator(self, one: Discriminator, rival: Player, turn: Turns, i: int):
        fakes, _, _ = self.gan.imagine(rival, turn.noise, turn.labels)
        lr = one.lr if self.own_rates else None
        key = random.fold(turn.keys, i)
        player, cost = self.gan.discriminate(
            one.player, turn.images, fakes, turn.labels, key, lr=lr
        )
        return one._replace(player=player), cost

    def _train_generator(
        self, one: Generator, rival: Player, turn: Turns, i: int
    ) -> tuple[Generator, Tensor]:
        rules = self._rules(one, None, turn.losses[i])
        fakes, buffers, pull = self.gan.imagine(one.player, turn.noise, turn.labels)
        _, feedback, cost = self.gan.judge(rival, fakes, turn.labels, rules.loss)
        player = self.gan.descend(
            one.player._replace(buffers=buffers), pull(feedback), rules.generator_lr
        )
        average = blend(one.average, player, self.gan.ema) if self.gan.ema else one.average
        return one._replace(player=player, average=average), cost

    def _train_pair(self, sides: Sides, turns: Turns) -> tuple[Sides, dict[str, Tensor]]:
        """One against one, as in a GAN's own step: the generator answers for the fakes that were judged."""
        one, other = trees.row(sides.generators, 0), trees.row(sides.discriminators, 0)
        pair, num = Pair(one.player, other.player, one.average), self.discriminator_steps
        images, labels, noise, keys, _, drawn = turns
        rules = self._rules(one, other, drawn[num - 1, 0])
        pair, costs = self.gan.step(
            pair, images[:num], labels[:num], noise[:num], keys[:num], rules
        )
        answers = [costs["generator_loss"]]
        for n in range(num, len(keys)):
            fakes, buffers, pull = self.gan.imagine(pair.generator, noise[n], labels[n])
            pair = pair._replace(generator=pair.generator._replace(buffers=buffers))
            pair, more = self.gan.answer(
                pair, fakes, pull, labels[n], self._rules(one, other, drawn[n, 0])
            )
            answers.append(more["generator_loss"])
        one = one._replace(player=pair.generator, average=pair.average)
        sides = Sides(trees.stack([one]), trees.stack([other._replace(player=pair.discriminator)]))
        return sides, costs | {"generator_loss": torch.stack(answers).mean()}

    def _rules(self, one: Generator, other: Discriminator | None, drawn: Tensor) -> Rules:
        chosen = {"none": None, "creation": one.loss, "update": drawn}[self.drawing]
        loss = None if chosen is None else partial(drawn_loss, chosen)
        if not self.own_rates:
            return Rules(loss=loss)
        return Rules(one.lr, other.lr if other is not None else None, loss)


def _pick(own: list[Tree], others: Tree | None, number: Tensor) -> Tree:
    """The individual of that number; the others count from behind one's own."""
    everyone = trees.stack(own)
    if others is not None:
        everyone = trees.map(lambda *leaves: torch.cat(leaves), everyone, others)
    return trees.map(lambda leaf: leaf[number], everyone)
