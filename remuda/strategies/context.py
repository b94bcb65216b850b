"""Define the context: everything that a strategy needs from outside."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from remuda.gan import GAN
from remuda.tensors.trees import Tree

Metrics = dict[str, Tensor]  # each (members hosted here,)
FeatureExtractor = Callable[[Tensor], Tensor]  # images (n, C, H, W) in [-1, 1] -> (n, d)


def pixels(images: Tensor) -> Tensor:
    """Return the pixels of images as their features."""
    return images.flatten(1)


class Report(dict[str, Tensor]):
    """The metrics of a round, together with facts that are recorded but are not metrics.

    Every leaf of ``facts`` has one row per member hosted here. Whole numbers are positions of
    members; the record contains their ids instead.
    """

    def __init__(self, metrics: Metrics, facts: dict[str, Tree]):
        super().__init__(metrics)
        self.facts = facts


def facts_of(metrics: Metrics) -> dict[str, Tree]:
    """Return the facts that a strategy has added to the metrics of a round."""
    return metrics.facts if isinstance(metrics, Report) else {}


@dataclass(frozen=True, eq=False, kw_only=True)
class Context:
    """Everything that a strategy needs from outside."""

    gan: GAN
    seed: int
    shares: tuple[int, ...] = ()  # number of images of each member; empty if not needed
    # Number of images of each member and class; empty if not needed.
    class_counts: tuple[tuple[int, ...], ...] = ()
    lost: tuple[int, ...] = ()  # ids of members that were lost; the others keep their ids
    features: FeatureExtractor = pixels  # used to compare images
