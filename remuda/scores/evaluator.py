"""Evaluate samples with a feature extractor, a reference and the kinds of scores."""

import difflib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from remuda.data import DataConfig, Dataset
from remuda.data import load as load_data
from remuda.data.config import Split
from remuda.errors import UserError
from remuda.scores.base import FeatureExtractor, Value
from remuda.scores.config import KINDS, ScoreConfig, parse_kinds
from remuda.scores.directions import direction
from remuda.scores.features.advice import advice
from remuda.scores.features.classifier import Classifier
from remuda.scores.features.extractor import find_extractor
from remuda.scores.features.inception import Inception
from remuda.scores.floors import Floors
from remuda.scores.kinds import NEEDS, Kind, Measured, Subject
from remuda.scores.reference import first_classes, make_reference
from remuda.system import progress
from remuda.system.text import Notify, ignore


class Evaluator:
    """Store the features of the real images; ``score`` compares samples with them.

    ``num_labels`` is the number of labels that the model accepts: 0 = none, None = all classes of
    the data. ``classes`` are the classes that the model was trained on; None accepts any classes.
    ``chosen`` is the name of a score, or the beginning of one, that must be among the scores.
    ``num_trained`` is the number of classes that the model was trained on, the first ones of the
    data; None = all. Only their images count, and the names of the scores contain the number.
    """

    def __init__(
        self,
        data: DataConfig,
        config: ScoreConfig,
        device: torch.device,
        notify: Notify = ignore,
        num_labels: int | None = None,
        classes: Sequence[str] | None = None,
        chosen: str = "",
        num_trained: int | None = None,
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
        self.num_trained = 0  # the number of classes, if the model was not trained on all
        if num_trained is not None and num_trained < len(dataset.classes):
            self.num_trained, dataset = num_trained, first_classes(dataset, num_trained)
            other = None if other is None else first_classes(other, num_trained)
        most = len(dataset.classes)
        self.num_labels = most if num_labels is None else min(num_labels, most)
        self.is_points = dataset.images.is_floating_point()
        self.extractor: FeatureExtractor | None = None
        if not self.is_points:
            self.extractor = find_extractor(data, dataset.shape, config.classifier, device, notify)
        self._advice = "" if self.extractor is None else advice(self.extractor, dataset, False)
        self.has_other_split, self.data_name = other is not None, dataset.name
        # Fail here if a kind is not possible, before features are computed or training starts.
        names = self.names()
        self.chosen = choose(chosen, names) if chosen else ""  # the whole name
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

    def names(self) -> dict[str, str]:
        """Return the names of all scores, if every kind can score the samples.

        The values are the better directions; "" if a direction is not known.
        """
        kinds = self._select_kinds(has_labels=self.num_labels > 0)
        found = {
            self._name(part, kind, self.config.samples): kind.better
            for name, kind in kinds.items()
            for part in kind.parts or (name.rpartition(":")[2],)
        }
        return {name: direction(name, better) for name, better in found.items()}

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
        features = None
        if self.extractor is not None:
            with progress.tracked("computing features", len(images), "images", self._advice):
                features = self.extractor(images)
        subject = Subject(images, labels, self.num_labels, features, seed)
        shared = time.perf_counter() - start
        values: list[Value] = []
        reasons: list[str] = []
        kinds = self._select_kinds(labels is not None)
        with progress.tracked("comparing features", len(kinds), "scores") as shown:
            for name, kind in kinds.items():
                start = time.perf_counter()
                try:
                    measured = kind.measure(subject, self.reference, self.held_out)
                except UserError as error:
                    reasons.append(f"no {name}: {error}")
                    continue
                seconds = shared + time.perf_counter() - start
                values += self._values(name, kind, measured, subject, round(seconds, 3))
                shown.advance(1)
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
                name=self._name(part, kind, len(subject.images)),
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
                better=kind.better,
                seconds=seconds,
            )
            for part, measure in measured.items()
        ]

    def _name(self, part: str, kind: Kind, num_samples: int) -> str:
        """Return a score's name; without Inception, the Inception score is named after the data."""
        if part == "is" and not isinstance(self.extractor, Inception):
            part = self.data_name.split(":")[0] + "-score"
        split = self.config.reference if kind.compares else ""
        basis = self._basis(self.extractor if kind.uses_features else None)
        return protocol_name(part, num_samples, split, basis, self.num_trained)

    def _basis(self, extractor: FeatureExtractor | None) -> str:
        """Return the last part of a score's name: the feature extractor, or pixels."""
        if extractor is not None:
            return extractor.name.split("-")[0]
        return "" if self.is_points else "pixels"


def choose(wanted: str, names: Mapping[str, str]) -> str:
    """Return the only name that starts with the value of run.keep_best; raise if it is unclear.

    ``names`` maps the names of all scores to their better directions.
    """
    found = [name for name in names if name.startswith(wanted)]
    if wanted in names:  # it may be the beginning of others
        found = [wanted]
    if len(found) > 1:
        raise UserError(
            f"run.keep_best={wanted} fits several scores: choose one of {', '.join(found)}"
        )
    if not found:
        # Compare beginnings of equal length: users rarely type the whole name.
        starts = {name[: len(wanted)]: name for name in reversed(list(names))}
        (nearest,) = difflib.get_close_matches(wanted, starts, n=1, cutoff=0.0)
        raise UserError(
            f"run.keep_best={wanted} is not among the scores of this run, {', '.join(names)}: "
            f"choose one of them, for example {starts[nearest]}, or change scores.kinds, "
            "scores.samples or scores.reference"
        )
    if not names[found[0]]:
        raise UserError(
            f"run.keep_best={wanted} cannot be used, because it is not known whether higher or "
            f"lower values of {found[0]} are better: choose another score, or set better in its "
            "Kind"
        )
    return found[0]


def protocol_name(kind: str, num_samples: int, split: str, basis: str, num_classes: int = 0) -> str:
    """Return a name such as fid_10k_train_inception: kind, samples, reference split, features.

    The last part, such as 5-classes, is the number of classes if it is not 0.
    """
    number = f"{num_samples // 1000}k" if num_samples % 1000 == 0 else str(num_samples)
    classes = ""
    if num_classes:
        classes = "1-class" if num_classes == 1 else f"{num_classes}-classes"
    return "_".join(part for part in (kind, number, split, basis, classes) if part)
