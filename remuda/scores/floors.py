"""Floors: the same scores of real images that are not in the reference, kept in the cache."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from remuda.errors import UserError
from remuda.scores.base import FeatureNetwork
from remuda.scores.digests import text_digest
from remuda.scores.features import cache
from remuda.scores.kinds import Kind, Subject
from remuda.scores.reference import Reference
from remuda.system import disk


class Floor(NamedTuple):
    values: dict[str, float]  # by the names of the scores; empty where there is none
    num_images: int


NONE = Floor({}, 0)


class Floors:
    def __init__(
        self,
        reference: Reference,
        held_out: Reference | None,
        network: FeatureNetwork | None,
        num_labels: int,
        say: Callable[[str], None],
    ):
        self.reference, self.held_out, self.network = reference, held_out, network
        self.num_labels, self.say = num_labels, say

    def of(self, name: str, kind: Kind, num_samples: int) -> Floor:
        """Of a kind by its name, beside so many samples."""
        if (
            self.held_out is None
            or self.held_out.features is None
            or self.network is None
            or not kind.looks
        ):
            return NONE
        # Rows are spread over the classes in the order of the split: a step through them keeps the spread.
        count = min(num_samples, len(self.held_out.rows))
        chosen = torch.linspace(0, len(self.held_out.rows) - 1, count).round().long()
        labels = self.held_out.sample_labels[chosen]
        num_labels = self.num_labels if "labels" in kind.needs else 0
        if num_labels:  # by class, there is nothing to compare with others than the model has
            chosen, labels = chosen[labels < num_labels], labels[labels < num_labels]
        parts = name, count, num_labels, self.reference.key, self.held_out.key, self.network.digest
        path = cache.folder("floors") / f"{name}-{text_digest(' '.join(map(str, parts)))}.json"
        found = _read(path)
        if found is None:
            features = self.held_out.features.rows(chosen.to(self.held_out.features.values.device))
            images = self.held_out.images[self.held_out.rows[chosen]]
            found = self._measure(
                name, kind, Subject(images, labels, num_labels, features, 0), path
            )
        return Floor(found, len(chosen)) if found else NONE

    def _measure(self, name: str, kind: Kind, subject: Subject, path: Path) -> dict[str, float]:
        try:
            measured = kind.measure(subject, self.reference, self.held_out)
        except UserError as error:
            self.say(f"no floor beside {name}, as {error}")
            return {}
        floors = {part: measure.value for part, measure in measured.items()}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            disk.write_text(path, json.dumps(floors))
        except OSError as error:
            self.say(f"floors cannot be kept in {path.parent} ({error}): set REMUDA_CACHE")
        return floors


def _read(path: Path) -> dict[str, float] | None:
    """None where it is absent or damaged: then it is measured again."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    is_whole = isinstance(found, dict) and all(
        isinstance(x, float) and math.isfinite(x) for x in found.values()
    )
    return found if found and is_whole else None
