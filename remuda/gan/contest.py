"""Train several generators against several discriminators.

Each individual is evaluated against all opponents. It trains against opponents drawn at random.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.func import vmap

from remuda.gan.gan import GAN
from remuda.gan.losses import MUSTANGS, drawn_loss
from remuda.gan.overrides import Overrides
from remuda.gan.players import Pair, Player, apply
from remuda.tensors import random, trees
from remuda.tensors.trees import Tree

Drawing = Literal["none", "creation", "update"]  # when to draw a generator's loss


class Generator(NamedTuple):
    """A generator with its own learning rate and loss."""

    player: Player
    average: dict[str, Tensor]
    lr: Tensor
    loss: Tensor  # (3,), one-hot: the MUSTANGS loss drawn when it was created


class Discriminator(NamedTuple):
    """A discriminator with its own learning rate."""

    player: Player
    lr: Tensor


class Sides(NamedTuple):
    """The generators and the discriminators; each leaf has a leading axis of individuals."""

    generators: Generator
    discriminators: Discriminator


class Turns(NamedTuple):
    """The inputs of n updates."""

    images: Tensor  # (n, b, C, H, W) in [-1, 1]
    labels: Tensor  # (n, b)
    noise: Tensor  # (n, b, latent)
    keys: Tensor  # (n,)
    rivals: Tensor  # (n, individuals, 2): a discriminator's generator, a generator's discriminator
    losses: Tensor  # (n, individuals, 3), one-hot: each generator's loss, if drawn per update
    scheduled: dict[str, Tensor]  # (n, ...): values of Overrides; empty without a schedule


@dataclass(frozen=True, eq=False)
class Contest:
    """Apply the rules of a GAN to several generators and several discriminators.

    Discriminators learn from the first ``discriminator_steps`` batches of a turn. Generators learn
    from the last of these batches and from all later ones.
    """

    gan: GAN
    discriminator_steps: int
    own_rates: bool  # whether individuals have their own learning rates
    drawing: Drawing
    penalty_factor: float = 1.0  # scales the penalties when individuals are evaluated

    def new_individuals(self, keys: Sequence[int]) -> Sides:
        """Return one new individual of each side for every key."""
        pairs = trees.stack([self.gan.init(key) for key in keys])
        drawn = [random.key(key, "loss") % len(MUSTANGS) for key in keys]
        rates = torch.ones(2, len(keys))
        rates[0] *= self.gan.generator_optimizer.lr
        rates[1] *= self.gan.discriminator_optimizer.lr
        losses = torch.eye(len(MUSTANGS))[drawn]
        generators = Generator(pairs.generator, pairs.average, rates[0], losses)
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
        """Evaluate every generator against every discriminator, with their training losses.

        Return the losses of the generators (G, D) and of the discriminators (D, G).
        """
        gan, objective = self.gan, self.gan.objective

        def outputs(player: Player, shown: Tensor) -> Tensor:
            return gan.critic(player.params, player.buffers)((shown, labels))[0]

        def penalty(player: Player, shown: Tensor) -> Tensor:
            critic = gan.critic(player.params, player.buffers)
            return objective.penalties(critic, (images, labels), (shown, labels), key)

        def with_all_fakes(fn: Callable[[Player, Tensor], Tensor]) -> Callable[[Player], Tensor]:
            def with_each(player: Player) -> Tensor:
                # Use a copy for each batch of fakes, because a pass changes running statistics.
                copies = trees.map(lambda leaf: leaf.expand(len(fakes), *leaf.shape), player)
                return vmap(fn)(copies, fakes)

            return with_each

        def both_losses(real: Tensor, fake: Tensor) -> tuple[Tensor, Tensor]:
            of_generator = objective.generator_loss(fake, labels, real)
            return of_generator, objective.discriminator_loss(real, fake, labels, labels)

        def generate(player: Player) -> Tensor:
            return apply(gan.generator, player.params, player.buffers, noise, labels)[0]

        fakes = vmap(generate)(generators)  # (G, b, C, H, W)
        on_real = vmap(lambda player: outputs(player, images))(discriminators)  # (D, b, ...)
        on_fakes = vmap(with_all_fakes(outputs))(discriminators)  # (D, G, b, ...)
        of_generators, of_discriminators = vmap(vmap(both_losses, (None, 0)))(on_real, on_fakes)
        if objective.has_penalties:
            penalties = vmap(with_all_fakes(penalty))(discriminators)
            of_discriminators = of_discriminators + self.penalty_factor * penalties
        return of_generators.T, of_discriminators

    def fitnesses(
        self,
        sides: Sides,
        measure: Callable[[Tensor], Tensor],
        images: Tensor,
        labels: Tensor,
        key: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return the fitness of each generator and each discriminator.

        ``measure`` maps losses (individuals, opponents) to fitnesses (individuals,).
        """
        noise = random.normal(key, (len(labels), self.gan.networks.latent))
        of_generators, of_discriminators = self.losses(
            sides.generators.player,
            sides.discriminators.player,
            images,
            labels,
            noise,
            random.fold(key, 1),
        )
        return measure(of_generators), measure(of_discriminators)

    def train(
        self, sides: Sides, others: Sides | None, turns: Turns
    ) -> tuple[Sides, dict[str, Tensor]]:
        """Train all individuals of ``sides`` over these turns.

        ``rivals`` numbers the individuals of ``sides`` first, then those of ``others``, which do
        not learn.
        """
        num_individuals = len(sides.generators.lr)
        if num_individuals == 1 and others is None:
            return self._train_pair(sides, turns)
        generators = [trees.row(sides.generators, i) for i in range(num_individuals)]
        discriminators = [trees.row(sides.discriminators, i) for i in range(num_individuals)]
        other_generators, other_discriminators = (None, None) if others is None else others
        losses: dict[str, list[Tensor]] = {"discriminator_loss": [], "generator_loss": []}
        for n in range(len(turns.keys)):
            turn = trees.row(turns, n)
            for i in range(num_individuals):
                if n < self.discriminator_steps:
                    rival = _pick(generators, other_generators, turn.rivals[i, 0]).player
                    discriminators[i], loss = self._train_discriminator(
                        discriminators[i], rival, turn, i
                    )
                    losses["discriminator_loss"].append(loss)
                if n >= self.discriminator_steps - 1:
                    rival = _pick(discriminators, other_discriminators, turn.rivals[i, 1]).player
                    generators[i], loss = self._train_generator(generators[i], rival, turn, i)
                    losses["generator_loss"].append(loss)
        sides = Sides(trees.stack(generators), trees.stack(discriminators))
        return sides, {name: torch.stack(values).mean() for name, values in losses.items()}

    def _train_discriminator(
        self, one: Discriminator, rival: Player, turn: Turns, i: int
    ) -> tuple[Discriminator, Tensor]:
        fakes, _, _ = self.gan.generate(rival, turn.noise, turn.labels)
        lr = one.lr if self.own_rates else None
        overrides = Overrides(discriminator_lr=lr)._replace(**turn.scheduled)
        key = random.fold(turn.keys, i)
        player, loss = self.gan.update_discriminator(
            one.player, turn.images, fakes, turn.labels, key, overrides=overrides
        )
        return one._replace(player=player), loss

    def _train_generator(
        self, one: Generator, rival: Player, turn: Turns, i: int
    ) -> tuple[Generator, Tensor]:
        overrides = self._overrides(one, None, turn.losses[i], turn.scheduled)
        fakes, buffers, pull = self.gan.generate(one.player, turn.noise, turn.labels)
        real = turn.images, turn.labels
        _, feedback, loss = self.gan.feedback(rival, fakes, turn.labels, overrides.loss, real)
        player = self.gan.apply_gradients(
            one.player._replace(buffers=buffers), pull(feedback), overrides
        )
        average = self.gan.update_average(one.average, player, overrides)
        return one._replace(player=player, average=average), loss

    def _train_pair(self, sides: Sides, turns: Turns) -> tuple[Sides, dict[str, Tensor]]:
        """Train one pair as ``GAN.step`` does: the generator reuses the last batch of fakes."""
        one, other = trees.row(sides.generators, 0), trees.row(sides.discriminators, 0)
        pair, num_steps = Pair(one.player, other.player, one.average), self.discriminator_steps
        images, labels, noise, keys, _, drawn, scheduled = turns
        values = trees.row(scheduled, 0)  # they do not change within the turn
        overrides = self._overrides(one, other, drawn[num_steps - 1, 0], values)
        pair, losses = self.gan.step(
            pair,
            images[:num_steps],
            labels[:num_steps],
            noise[:num_steps],
            keys[:num_steps],
            overrides,
        )
        generator_losses = [losses["generator_loss"]]
        for n in range(num_steps, len(keys)):
            fakes, buffers, pull = self.gan.generate(pair.generator, noise[n], labels[n])
            pair = pair._replace(generator=pair.generator._replace(buffers=buffers))
            overrides = self._overrides(one, other, drawn[n, 0], values)
            pair, more = self.gan.update_generator(
                pair, fakes, pull, labels[n], overrides, (images[n], labels[n])
            )
            generator_losses.append(more["generator_loss"])
        one = one._replace(player=pair.generator, average=pair.average)
        sides = Sides(trees.stack([one]), trees.stack([other._replace(player=pair.discriminator)]))
        return sides, losses | {"generator_loss": torch.stack(generator_losses).mean()}

    def _overrides(
        self,
        one: Generator,
        other: Discriminator | None,
        drawn: Tensor,
        scheduled: dict[str, Tensor],
    ) -> Overrides:
        chosen = {"none": None, "creation": one.loss, "update": drawn}[self.drawing]
        loss = None if chosen is None else partial(drawn_loss, chosen)
        if not self.own_rates:
            return Overrides(loss=loss)._replace(**scheduled)
        rates = one.lr, None if other is None else other.lr
        return Overrides(*rates, loss)._replace(**scheduled)


def _pick(own: list[Tree], others: Tree | None, number: Tensor) -> Tree:
    """Return the individual with this number; ``others`` are numbered after ``own``."""
    everyone = trees.stack(own)
    if others is not None:
        everyone = trees.map(lambda *leaves: torch.cat(leaves), everyone, others)
    return trees.map(lambda leaf: leaf[number], everyone)
