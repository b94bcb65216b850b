"""Define GANs: the losses, the optimizer, and the training step of a pair of networks."""

from typing import TYPE_CHECKING

from remuda.system.choices import Choices, lazy_exports

if TYPE_CHECKING:
    from remuda.gan.gan import GAN
    from remuda.gan.losses import Loss
    from remuda.gan.optimizers import Adam
    from remuda.gan.overrides import Overrides
    from remuda.gan.players import Pair, Player

LOSSES: "Choices[Loss]" = Choices(
    {
        "non-saturating": "remuda.gan.losses:NON_SATURATING",
        "minimax": "remuda.gan.losses:MINIMAX",
        "least-squares": "remuda.gan.losses:LEAST_SQUARES",
        "wasserstein": "remuda.gan.losses:WASSERSTEIN",
        "hinge": "remuda.gan.losses:HINGE",
        "relativistic": "remuda.gan.losses:RELATIVISTIC",
    },
    group="remuda.losses",
    base="remuda.gan.losses:Loss",
    of_class=True,
)

__all__ = ["GAN", "LOSSES", "Adam", "Loss", "Overrides", "Pair", "Player"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "gan": ["GAN"],
        "losses": ["Loss"],
        "optimizers": ["Adam"],
        "overrides": ["Overrides"],
        "players": ["Pair", "Player"],
    },
)
