"""Define a GAN: its settings, the structure of its networks, and its first weights."""

import copy
from abc import ABC
from dataclasses import dataclass, field

from torch import nn

from remuda.gan import players
from remuda.gan.augment import Augmented
from remuda.gan.checks import ROLES, build, check_loss, check_networks
from remuda.gan.lipschitz import SpectralNorm
from remuda.gan.losses import Loss
from remuda.gan.objective import Objective
from remuda.gan.optimizers import Adam
from remuda.gan.players import Pair
from remuda.networks import Networks
from remuda.networks.batches import for_batches
from remuda.system.pytorch import own_random_state


@dataclass(eq=False, kw_only=True)
class Definition(ABC):
    """Define two networks and how they train."""

    networks: Networks
    shape: tuple[int, ...]  # shape of one image, (C, H, W)
    num_classes: int
    loss: Loss
    generator_optimizer: Adam
    discriminator_optimizer: Adam
    lipschitz: str = "none"  # none, clip, penalty, spectral, spectral-both
    clip: float = 0.01  # clip: bound of the critic's weights
    penalty: float = 10.0  # penalty: weight of the gradient penalty
    r1: float = 0.0  # weight of the R1 penalty, at real images; 0 = none
    r2: float = 0.0  # weight of the R2 penalty, at fakes; 0 = none
    penalty_every: int = 1  # compute penalties on one in this many images of a batch
    real_target: float = 1.0  # label of real images; less than 1 under label smoothing
    ema: float = 0.0  # decay of the generator's moving average; 0 = none
    shift: float = 0.0  # largest shift of the discriminator's images, as a fraction of the side
    cutout: float = 0.0  # side of the square cut out of these images, as a fraction
    colour: float = 0.0  # strength of the random changes of their colours, 0 to 1
    ada_target: float = 0.0  # adaptive augmentation: target of E sign(D(x)); 0 = not adaptive
    ada_images: float = 500_000  # real images in which its probability can rise from 0 to 1

    objective: Objective = field(init=False, repr=False)
    # These modules only define the structure; the weights are always arguments.
    generator: nn.Module = field(init=False, repr=False)
    discriminator: nn.Module = field(init=False, repr=False)
    sampler: nn.Module = field(init=False, repr=False)  # the generator in evaluation mode
    # the discriminator for two batches in one pass; None if it supports only one
    joint: nn.Module | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.objective = Objective(
            loss=self.loss,
            auxiliary=self.networks.auxiliary,
            real_target=self.real_target,
            penalty=self.penalty if self.lipschitz == "penalty" else 0.0,
            r1=self.r1,
            r2=self.r2,
            penalty_every=self.penalty_every,
        )
        check_loss(self.loss, self.real_target)
        self.generator, self.discriminator = self.build_networks(0, is_checked=True)
        self.sampler = copy.deepcopy(self.generator).eval()
        self.joint = for_batches(self.discriminator, 2)

    def build_networks(self, key: int, *, is_checked: bool = False) -> tuple[nn.Module, nn.Module]:
        """Return a generator and a discriminator whose weights are a function of the key."""
        with own_random_state(key):
            generator, discriminator = (
                build(self.networks, role, self.shape, self.num_classes) for role in ROLES
            )
            if is_checked:
                check_networks(
                    generator,
                    discriminator,
                    self.networks,
                    self.shape,
                    self.num_classes,
                    has_penalties=self.objective.has_penalties,
                )
            if self.lipschitz in ("spectral", "spectral-both"):
                discriminator = SpectralNorm(discriminator)
            if self.lipschitz == "spectral-both":
                generator = SpectralNorm(generator)
            if self.shift or self.cutout or self.colour:
                changes = self.shift, self.cutout, self.colour
                discriminator = Augmented(discriminator, *changes, self.ada_target > 0)
        return generator, discriminator

    def init(self, key: int) -> Pair:
        """Return a new pair whose weights are a function of the key."""
        generator, discriminator = self.build_networks(key)
        player = players.new_player(generator, self.generator_optimizer)
        average = players.new_average(player) if self.ema else {}
        return Pair(
            player, players.new_player(discriminator, self.discriminator_optimizer), average
        )
