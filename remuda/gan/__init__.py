"""Define GANs: the losses, the optimizer, and the training step of a pair of networks."""

from remuda.gan.gan import GAN
from remuda.gan.losses import LOSSES, Loss
from remuda.gan.optimizers import Adam
from remuda.gan.overrides import Overrides
from remuda.gan.players import Pair, Player

__all__ = ["GAN", "LOSSES", "Adam", "Loss", "Overrides", "Pair", "Player"]
