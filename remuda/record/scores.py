"""Check a line of scores.jsonl."""

from dataclasses import MISSING, dataclass, fields
from typing import Any

from remuda.record.files import Line
from remuda.record.rounds import is_metric

TRAINING_SEED = 0  # of the samples that are scored during training


@dataclass(frozen=True, kw_only=True)
class Score:
    """One score of one round, with its protocol. docs/record.md describes the fields."""

    round: int
    name: str  # states the protocol
    value: int | float
    spread: int | float | None = None
    floor: int | float | None = None  # the same score of real images
    floor_samples: int = 0  # number of real images behind the floor; 0 if not known
    classes: list | None = None  # one number per class
    sites: list | None = None  # of data at several sites: rank, host, images and value of each
    num_samples: int
    seed: int
    reference: str  # split of the data; "" without a reference
    num_reference: int
    reference_digest: str
    network: str  # "" without a network
    network_digest: str
    precision: str
    better: str = ""  # of a user's score: "lower" or "higher"
    seconds: int | float


def parse_score(line: Line) -> Score:
    """Check a line and return it as a Score; ignore fields that later versions add."""
    known = {}
    for field in fields(Score):
        value = line.get(field.name, None if field.default is MISSING else field.default)
        kind: Any = field.type
        if not isinstance(value, kind) or isinstance(value, bool):
            problem = repr(value) if field.name in line else "missing"
            raise TypeError(f"{field.name} is {problem}")
        known[field.name] = value
    score = Score(**known)
    if score.classes is not None and not is_metric(score.classes):
        raise TypeError("classes is not a list of numbers")
    if score.sites is not None and not all(map(_is_site, score.sites)):
        raise TypeError("sites is not a list of ranks, hosts, images and values")
    return score


def _is_site(site: Any) -> bool:
    if not isinstance(site, dict) or not isinstance(site.get("host"), str):
        return False
    numbers = site.get("rank"), site.get("images")
    is_counted = all(isinstance(x, int) and not isinstance(x, bool) for x in numbers)
    value = site.get("value")
    return is_counted and (value is None or isinstance(value, int | float))
