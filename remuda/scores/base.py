"""What scores share: features of images, and a value that says how it was made."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


class Features(NamedTuple):
    """What a network sees in n images."""

    values: Tensor  # (n, d) float32
    probabilities: (
        Tensor | None
    )  # (n, classes) float32, rows sum to 1; None where the network has no head

    def rows(self, index: Tensor) -> "Features":
        return Features(
            self.values[index], None if self.probabilities is None else self.probabilities[index]
        )


class FeatureNetwork(ABC):
    """A trained network whose features images are compared by; its name and digest go into every score."""

    name: str  # as in the names of scores: "inception", "lenet-mnist"
    digest: str  # first 16 hexadecimal digits of the SHA-256 of its weights
    precision: str  # of its forward pass: "fp32", "tf32"
    has_head: bool  # whether its features come with probabilities

    @abstractmethod
    def __call__(self, images: Tensor) -> Features:
        """Features of uint8 images (n, C, H, W), in any number, on the network's device; n rows in the same order."""


@dataclass(frozen=True, kw_only=True)
class Value:
    """One score with its protocol; a line of scores.jsonl is these fields and the round."""

    name: str  # states the protocol: fid_10k_train_inception
    value: float
    spread: float | None = (
        None  # standard deviation over splits or subsets, where the protocol has them
    )
    floor: float | None = None  # the same score of real images that are not in the reference
    floor_samples: int = 0  # how many of them: as many as samples where the data have so many
    classes: list[float] | None = None  # one value per class, where it is a score per class
    num_samples: int  # generated images
    seed: int  # that they were drawn from
    reference: str  # split of the data that they were compared with: "train", "test", or "" where there is none
    num_reference: int
    reference_digest: (
        str  # first 16 hexadecimal digits of the SHA-256 of the reference's images; "" where none
    )
    network: str  # "" where the score looks at the pixels or points themselves
    network_digest: str
    precision: str
    seconds: float
