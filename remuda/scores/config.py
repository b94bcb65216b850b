"""What a run says about its scores."""

from dataclasses import dataclass
from typing import Literal

from remuda.errors import UserError
from remuda.scores.kinds import wanted_kinds


@dataclass(frozen=True, kw_only=True)
class ScoreConfig:
    """By what a herd's samples are judged, and how often."""

    every: int = 0  # rounds between scorings while the herd trains, and after the last; 0 = none
    kinds: str = (
        "auto"  # such as "fid,kid"; auto: those that suit the data, all: every one that is possible
    )
    samples: int = 10_000  # generated images, >= 2
    reference: Literal["train", "test"] = "train"  # split that samples are compared with
    classifier: Literal["auto", "train"] = (
        "auto"  # auto: Inception for colour images, else as train: one of our own
    )

    def __post_init__(self):
        if self.every < 0:
            raise UserError(f"scores.every must be at least 0, not {self.every}")
        wanted_kinds(self.kinds)
        if self.samples < 2:
            raise UserError(f"scores.samples must be at least 2, not {self.samples}")
