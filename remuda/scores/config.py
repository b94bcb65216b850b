"""Define a run's score settings, and name the kinds of scores."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from remuda.errors import UserError
from remuda.system.choices import Choices

if TYPE_CHECKING:
    from remuda.scores.kinds import Kind

KINDS: "Choices[Kind]" = Choices(
    {
        "fid": "remuda.scores.kinds:FID",
        "kid": "remuda.scores.kinds:KID",
        "is": "remuda.scores.kinds:INCEPTION_SCORE",
        "tvd": "remuda.scores.kinds:TVD",
        "class-kid": "remuda.scores.kinds:CLASS_KID",
        "diversity": "remuda.scores.kinds:DIVERSITY",
        "class-fid": "remuda.scores.kinds:CLASS_FID",
        "manifold": "remuda.scores.kinds:MANIFOLD",
        "copying": "remuda.scores.kinds:COPYING",
        "modes": "remuda.scores.kinds:MODE_COVERAGE",
    },
    group="remuda.scores",
    base="remuda.scores.kinds:Kind",
    of_class=True,
)


@dataclass(frozen=True, kw_only=True)
class ScoreConfig:
    """Choose the scores to compute for a run's samples, and how often to compute them."""

    every: int = 0  # rounds between scores; the last round is also scored; 0 = no scores
    # such as "fid,kid"; auto: kinds that suit the data; all: every possible kind
    kinds: str = "auto"
    samples: int = 10_000  # number of generated images, >= 2
    reference: Literal["train", "test"] = "train"  # split that samples are compared with
    # train: a classifier of the data's own classes; auto: Inception for colour images, else train
    classifier: Literal["auto", "train"] = "auto"

    def __post_init__(self) -> None:
        if self.every < 0:
            raise UserError(f"scores.every must be at least 0, not {self.every}")
        parse_kinds(self.kinds)
        if self.samples < 2:
            raise UserError(f"scores.samples must be at least 2, not {self.samples}")


def parse_kinds(text: str) -> list[str]:
    """Return the names in a setting such as "fid,kid"; auto and all must be the only name."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = f"choose from auto, all, {', '.join(KINDS)}"
    if not names:
        raise UserError(f"no score is selected: {known}")
    for name in names:
        if name in ("auto", "all") and len(names) > 1:
            raise UserError(
                f"{name} selects several scores and cannot be combined with others: use {name} "
                "without other names, or leave it out"
            )
        if name not in ("auto", "all") and name not in KINDS:
            raise UserError(f"score {name!r} does not exist: {known}")
    return names
