"""Define features, feature extractors and score values, which all scores use.

This module does not import PyTorch, so that reports can read values without it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Features(NamedTuple):
    """The features of n images."""

    values: "Tensor"  # (n, d) float32
    # (n, classes) float32; each row sums to 1; None if the extractor has no head
    probabilities: "Tensor | None"

    def rows(self, index: "Tensor") -> "Features":
        """Return the features of some of the images."""
        if self.probabilities is None:
            return Features(self.values[index], None)
        return Features(self.values[index], self.probabilities[index])


class FeatureExtractor(ABC):
    """A trained network that turns images into features; every score states its name and digest."""

    name: str  # as it appears in the names of scores: "inception", "lenet-mnist"
    digest: str  # first 16 hexadecimal digits of the SHA-256 of its weights
    precision: str  # precision of its forward pass: "fp32", "tf32"
    has_head: bool  # whether it also returns class probabilities

    @abstractmethod
    def __call__(self, images: "Tensor") -> Features:
        """Return the features of any number of uint8 images (n, C, H, W), in the same order.

        The features are on the extractor's device.
        """


@dataclass(frozen=True, kw_only=True)
class Value:
    """One score with its protocol; a line of scores.jsonl has these fields and the round."""

    name: str  # states the protocol, for example fid_10k_train_inception
    value: float
    spread: float | None = None  # standard deviation over splits or subsets, if any
    floor: float | None = None  # the same score of real images that are not in the reference
    floor_samples: int = 0  # number of these images; num_samples if the data have enough
    classes: list[float] | None = None  # one value per class, for scores by class
    # for data at several sites: the rank, host and number of images of each, and the value of the
    # score against the images of this site only; None if it has no such value
    sites: list[dict[str, Any]] | None = None
    num_samples: int  # number of generated images
    seed: int  # seed of the generated images
    reference: str  # split that the images were compared with: "train", "test"; "" if none
    num_reference: int
    reference_digest: str  # first 16 hexadecimal digits of the SHA-256 of its images; "" if none
    network: str  # feature extractor; "" if the score uses pixels or points
    network_digest: str
    precision: str
    better: str = ""  # of a user's score: "lower" or "higher"; "" if not stated
    seconds: float
