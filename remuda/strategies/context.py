"""Define the context: everything that a strategy needs from outside."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from remuda.gan import GAN

Metrics = dict[str, Tensor]  # each (members hosted here,)
FeatureExtractor = Callable[[Tensor], Tensor]  # images (n, C, H, W) in [-1, 1] -> (n, d)


def pixels(images: Tensor) -> Tensor:
    """Return the pixels of images as their features."""
    return images.flatten(1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Context:
    """Everything that a strategy needs from outside."""

    gan: GAN
    seed: int
    shares: tuple[int, ...] = ()  # number of images of each member; empty if not needed
    features: FeatureExtractor = pixels  # used to compare images
