"""Compute and cache floors: the scores of real images that are not in the reference."""

import json
import math
from pathlib import Path
from typing import NamedTuple

import torch

from remuda.errors import UserError
from remuda.scores.base import FeatureExtractor
from remuda.scores.digests import text_digest
from remuda.scores.features import cache
from remuda.scores.kinds import Kind, Subject
from remuda.scores.reference import Reference
from remuda.system import disk
from remuda.system.parts import fingerprint, is_reference
from remuda.system.text import Notify


class Floor(NamedTuple):
    """Scores of real images."""

    values: dict[str, float]  # by score name; empty if the kind has no floor
    num_images: int


NONE = Floor({}, 0)


class Floors:
    """Measure floors by comparing images of the other split with the reference."""

    def __init__(
        self,
        reference: Reference,
        held_out: Reference | None,
        extractor: FeatureExtractor | None,
        num_labels: int,
        notify: Notify,
    ):
        self.reference, self.held_out, self.extractor = reference, held_out, extractor
        self.num_labels, self.notify = num_labels, notify

    def of(self, name: str, kind: Kind, num_samples: int) -> Floor:
        """Return the floor of one kind of score for ``num_samples`` samples."""
        held_out, extractor = self.held_out, self.extractor
        if held_out is None or held_out.features is None or extractor is None:
            return NONE
        if not kind.uses_features:
            return NONE
        # Choose evenly spaced rows: they keep the order of the split and its mix of classes.
        count = min(num_samples, len(held_out.rows))
        chosen = torch.linspace(0, len(held_out.rows) - 1, count).round().long()
        labels = held_out.sample_labels[chosen]
        num_labels = self.num_labels if "labels" in kind.needs else 0
        if num_labels:  # scores by class compare only classes that the model knows
            chosen, labels = chosen[labels < num_labels], labels[labels < num_labels]
        code = fingerprint(name) if is_reference(name) else name
        facts = code, count, num_labels, self.reference.key, held_out.key, extractor.digest
        label = name.rpartition(":")[2]
        path = cache.folder("floors") / f"{label}-{text_digest(' '.join(map(str, facts)))}.json"
        found = _read(path)
        if found is None:
            features = held_out.features.rows(chosen.to(held_out.features.values.device))
            images = held_out.images[held_out.rows[chosen]]
            subject = Subject(images, labels, num_labels, features, 0)
            found = self._measure(name, kind, subject, path)
        return Floor(found, len(chosen)) if found else NONE

    def _measure(self, name: str, kind: Kind, subject: Subject, path: Path) -> dict[str, float]:
        try:
            measured = kind.compute(subject, self.reference, self.held_out)
        except UserError as error:
            self.notify(f"{name} has no floor: {error}")
            return {}
        floors = {part: measure.value for part, measure in measured.items()}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            disk.write_text(path, json.dumps(floors), is_shared=True)
        except OSError as error:
            self.notify(
                f"cannot write floors to {path.parent} ({error}): set REMUDA_CACHE to a writable "
                "folder"
            )
        return floors


def _read(path: Path) -> dict[str, float] | None:
    """Return floors from the cache, or None if the file is missing or damaged."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or not found:
        return None
    intact = all(isinstance(x, float) and math.isfinite(x) for x in found.values())
    return found if intact else None
