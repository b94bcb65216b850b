"""One generator against one discriminator: losses, optimizer, step."""

from remuda.gan.losses import LOSSES, Loss
from remuda.gan.optimizers import Adam
from remuda.gan.players import Pair, Player
from remuda.gan.step import GAN, Rules

__all__ = ["GAN", "LOSSES", "Adam", "Loss", "Pair", "Player", "Rules"]
