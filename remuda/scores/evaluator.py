"""Evaluate samples with a feature extractor, a reference and the kinds of scores."""

import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from remuda.data import DataConfig, Dataset
from remuda.errors import UserError
from remuda.scores.base import FeatureExtractor, Value
from remuda.scores.config import KINDS, ScoreConfig, parse_kinds
from remuda.scores.directions import direction
from remuda.scores.features.advice import advice
from remuda.scores.features.classifier import Classifier
from remuda.scores.features.extractor import find_extractor
from remuda.scores.features.inception import Inception
from remuda.scores.floors import NONE, Floors
from remuda.scores.kinds import NEEDS, Kind, Measured, Subject
from remuda.scores.names import choose, protocol_name
from remuda.scores.reference import Reference, Splits, load_splits, make_reference, other_split
from remuda.scores.sites import Answer, Sites
from remuda.system import progress
from remuda.system.text import Notify, ignore


class Evaluator:
    """Store the features of the real images; ``score`` compares samples with them.

    ``num_labels`` is the number of labels that the model accepts: 0 = none, None = all classes of
    the data. ``classes`` are the classes that the model was trained on; None accepts any classes.
    ``chosen`` is the name of a score, or the beginning of one, that must be among the scores.
    ``num_trained`` is the number of classes that the model was trained on, the first ones of the
    data; None = all. Only their images count, and the names of the scores contain the number.
    ``sites`` are the images of several sites; the evaluator opens them. ``origin`` is the last part
    of the scores' names, such as site-0, if the images are those of one site.
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
        sites: Sites | None = None,
        origin: str = "",
    ):
        self.config, self.notify, self.sites, self.origin = config, notify, sites, origin
        if sites is None:
            splits = load_splits(data, config.reference, notify)
        else:
            data, splits = sites.sources[0].data, sites.splits[0]
        dataset = splits.dataset
        _check_classes(dataset, classes)
        self.num_trained = 0  # the number of classes, if the model was not trained on all
        if num_trained is not None and num_trained < len(dataset.classes):
            self.num_trained, splits = num_trained, splits.first_classes(num_trained)
            dataset = splits.dataset
        most = len(dataset.classes)
        self.num_labels = most if num_labels is None else min(num_labels, most)
        self.is_points = dataset.images.is_floating_point()
        self.extractor: FeatureExtractor | None = None
        if not self.is_points:
            whole = replace(data, limit=0, partition="auto")
            self.extractor = find_extractor(whole, dataset.shape, config.classifier, device, notify)
        self._advice = "" if self.extractor is None else advice(self.extractor, dataset, False)
        self.has_other_split, self.data_name = splits.other is not None, dataset.name
        # Fail here if a kind is not possible, before features are computed or training starts.
        if sites is not None:  # then the names contain the number of sites
            sites.open(self.extractor, self.num_trained)
        names = self.names()
        self.chosen = choose(chosen, names) if chosen else ""  # the whole name
        self.held_out: Reference | None = None
        self.floors: Floors | None = None
        if sites is None:
            self._prepare(splits, device)
        else:
            self.reference = sites.pooled()

    def _prepare(self, splits: Splits, device: torch.device) -> None:
        """Compute the features of both splits."""
        extractor, notify, split = self.extractor, self.notify, self.config.reference
        self.reference = make_reference(splits.dataset, split, extractor, device, notify)
        if splits.other is not None:
            other = other_split(split)
            self.held_out = make_reference(splits.other, other, extractor, device, notify)
        self.floors = Floors(self.reference, self.held_out, extractor, self.num_labels, notify)

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
        answers: dict[str, Answer] = {}
        if self.sites is not None:
            compared = {name: kind for name, kind in kinds.items() if kind.compares}
            answers = self.sites.measure(subject, compared)
        with progress.tracked("comparing features", len(kinds), "scores") as shown:
            for name, kind in kinds.items():
                try:
                    values += self._score(name, kind, subject, answers.get(name), shared)
                except UserError as error:
                    reasons.append(f"no {name}: {error}")
                    continue
                shown.advance(1)
        if not values:
            raise UserError("; ".join(reasons))
        for reason in reasons:
            self.notify(reason)
        return values

    def _score(
        self, name: str, kind: Kind, subject: Subject, answer: Answer | None, shared: float
    ) -> list[Value]:
        """Return the scores of one kind. ``shared`` seconds were spent for all kinds together."""
        start = time.perf_counter()
        measured = self._measure(kind, subject, answer)
        seconds = round(shared + time.perf_counter() - start, 3)
        values = self._values(name, kind, measured, subject, seconds)
        if self.sites is None or answer is None:
            return values
        tables = [self.sites.table(answer, part) for part in measured]
        return [replace(value, sites=table) for value, table in zip(values, tables, strict=True)]

    def _measure(self, kind: Kind, subject: Subject, answer: Answer | None) -> Measured:
        """Compare with the reference, or combine the measures of all sites."""
        if self.sites is None or answer is None or kind.pools:
            return kind.compute(subject, self.reference, self.held_out)
        return self.sites.combine(kind, answer)

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
        floor = NONE
        if self.floors is not None:
            floor = self.floors.of(name, kind, len(subject.images))
        extractor = self.extractor if kind.uses_features else None
        split = self.reference.split if kind.compares else ""
        return [
            Value(
                name=self._name(part, kind, len(subject.images)),
                value=measure.value,
                spread=measure.spread,
                classes=measure.classes,
                floor=floor.values.get(part),
                floor_samples=floor.num_images if part in floor.values else 0,
                num_samples=len(subject.images),
                seed=subject.seed,
                reference=split,
                num_reference=self.reference.num_images if split else 0,
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
        origin = self.origin
        if self.sites is not None:
            origin = f"{'pooled' if kind.pools else 'sites'}-{len(self.sites)}"
        if not kind.compares:
            origin = ""
        return protocol_name(part, num_samples, split, basis, self.num_trained, origin)

    def _basis(self, extractor: FeatureExtractor | None) -> str:
        """Return the last part of a score's name: the feature extractor, or pixels."""
        if extractor is not None:
            return extractor.name.split("-")[0]
        return "" if self.is_points else "pixels"


def _check_classes(dataset: Dataset, classes: Sequence[str] | None) -> None:
    if classes is not None and list(classes) != list(dataset.classes):
        raise UserError(
            f"the classes of {dataset.name} are not those that the run was trained on, "
            f"{', '.join(classes[:12])}: score it against data with the same classes"
        )
