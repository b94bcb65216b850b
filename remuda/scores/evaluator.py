"""Evaluate samples with a feature extractor, a reference and the kinds of scores."""

import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from remuda.data import DataConfig, Dataset
from remuda.data import load as load_data
from remuda.data.config import Split
from remuda.errors import UserError
from remuda.scores.base import FeatureExtractor, Value
from remuda.scores.config import KINDS, ScoreConfig, parse_kinds
from remuda.scores.features.classifier import Classifier
from remuda.scores.features.extractor import find_extractor
from remuda.scores.features.inception import Inception
from remuda.scores.floors import Floors
from remuda.scores.kinds import NEEDS, Kind, Measured, Subject
from remuda.scores.reference import make_reference
from remuda.system.text import Notify, ignore


class Evaluator:
    """Store the features of the real images; ``score`` compares samples with them.

    ``num_labels`` is the number of labels that the model accepts: 0 = none, None = all classes of
    the data. ``classes`` are the classes that the model was trained on; None accepts any classes.
    """

    def __init__(
        self,
        data: DataConfig,
        config: ScoreConfig,
        device: torch.device,
        notify: Notify = ignore,
        num_labels: int | None = None,
        classes: Sequence[str] | None = None,
    ):
        self.config, self.notify = config, notify
        # The reference is the whole split, even if the run was trained on only part of the data.
        data = replace(data, limit=0, partition="auto")
        dataset, other = load_data(data, config.reference), self._load_other_split(data)
        if classes is not None and list(classes) != list(dataset.classes):
            raise UserError(
                f"the classes of {dataset.name} are not those that the run was trained on, "
                f"{', '.join(classes[:12])}: score it against data with the same classes"
            )
        self.num_labels = len(dataset.classes) if num_labels is None else num_labels
        self.is_points = dataset.images.is_floating_point()
        self.extractor: FeatureExtractor | None = None
        if not self.is_points:
            self.extractor = find_extractor(data, dataset.shape, config.classifier, device, notify)
        self.has_other_split = other is not None
        # Fail here if a kind is not possible, before features are computed or training starts.
        self._select_kinds(has_labels=self.num_labels > 0)
        self.reference = make_reference(dataset, config.reference, self.extractor, device, notify)
        self.held_out = None
        if other is not None:
            self.held_out = make_reference(other, self._other_split, self.extractor, device, notify)
        self.floors = Floors(self.reference, self.held_out, self.extractor, self.num_labels, notify)

    @property
    def _other_split(self) -> Split:
        return "test" if self.config.reference == "train" else "train"

    def _load_other_split(self, data: DataConfig) -> Dataset | None:
        try:
            return load_data(data, self._other_split)
        except UserError as error:
            self.notify(f"scores have no floors: {error}")
            return None

    def score(self, images: Tensor, labels: Tensor | None, seed: int) -> list[Value]:
        """Return all configured scores of images (n, C, H, W) in the format of the data set.

        If some kinds cannot score these images, pass the reasons to ``notify`` and return the other
        scores.
        """
        start = time.perf_counter()
        if len(images) > 1 and bool((images == images[:1]).all()):
            raise UserError(
                f"all {len(images):,} samples are equal, so they cannot be scored: the generator "
                "has collapsed; score an earlier checkpoint"
            )
        features = None if self.extractor is None else self.extractor(images)
        subject = Subject(images, labels, self.num_labels, features, seed)
        shared = time.perf_counter() - start
        values: list[Value] = []
        reasons: list[str] = []
        for name, kind in self._select_kinds(labels is not None).items():
            start = time.perf_counter()
            try:
                measured = kind.measure(subject, self.reference, self.held_out)
            except UserError as error:
                reasons.append(f"no {name}: {error}")
                continue
            seconds = shared + time.perf_counter() - start
            values += self._values(name, kind, measured, subject, round(seconds, 3))
        if not values:
            raise UserError("; ".join(reasons))
        for reason in reasons:
            self.notify(reason)
        return values

    def _select_kinds(self, has_labels: bool) -> dict[str, Kind]:
        """Return the configured kinds by name; raise if one is named but not possible."""
        available = {"points"} if self.is_points else {"images"}
        facts = {
            "head": self.extractor is not None and self.extractor.has_head,
            "classifier": isinstance(self.extractor, Classifier),
            "labels": has_labels,
            "held-out": self.has_other_split,
            "trained-on": self.config.reference == "train",
        }
        available |= {name for name, fact in facts.items() if fact}
        names = parse_kinds(self.config.kinds)
        if names in (["auto"], ["all"]):
            possible = {name: kind for name, kind in KINDS.items() if kind.needs <= available}
            if names == ["all"]:
                return possible
            return {name: kind for name, kind in possible.items() if kind.by_default}
        for name in names:
            for need in NEEDS:  # in a fixed order
                if need in KINDS[name].needs - available:
                    raise UserError(f"{name} cannot be measured here: {NEEDS[need]}")
        return {name: KINDS[name] for name in names}

    def _values(
        self, name: str, kind: Kind, measured: Measured, subject: Subject, seconds: float
    ) -> list[Value]:
        floor = self.floors.of(name, kind, len(subject.images))
        extractor = self.extractor if kind.uses_features else None
        split = self.reference.split if kind.compares else ""
        return [
            Value(
                name=protocol_name(
                    self._score_name(part), len(subject.images), split, self._basis(extractor)
                ),
                **measure._asdict(),
                floor=floor.values.get(part),
                floor_samples=floor.num_images if part in floor.values else 0,
                num_samples=len(subject.images),
                seed=subject.seed,
                reference=split,
                num_reference=len(self.reference.images) if split else 0,
                reference_digest=self.reference.digest if split else "",
                network=extractor.name if extractor else "",
                network_digest=extractor.digest if extractor else "",
                precision=extractor.precision if extractor else "fp64",
                seconds=seconds,
            )
            for part, measure in measured.items()
        ]

    def _score_name(self, part: str) -> str:
        """Return a score's name; without Inception, the Inception score is named after the data."""
        if part != "is" or isinstance(self.extractor, Inception):
            return part
        return self.reference.name.split(":")[0] + "-score"

    def _basis(self, extractor: FeatureExtractor | None) -> str:
        """Return the last part of a score's name: the feature extractor, or pixels."""
        if extractor is not None:
            return extractor.name.split("-")[0]
        return "" if self.is_points else "pixels"


def protocol_name(kind: str, num_samples: int, split: str, basis: str) -> str:
    """Return a name such as fid_10k_train_inception: kind, samples, reference split, features."""
    count = f"{num_samples // 1000}k" if num_samples % 1000 == 0 else str(num_samples)
    return "_".join(part for part in (kind, count, split, basis) if part)
