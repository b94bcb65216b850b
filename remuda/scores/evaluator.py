"""Judges samples: feature network, reference and kinds put together, and every value with its protocol."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from remuda.data import DataConfig, Dataset
from remuda.data import load as load_data
from remuda.data.config import Split
from remuda.errors import UserError
from remuda.scores.base import FeatureNetwork, Value
from remuda.scores.config import ScoreConfig
from remuda.scores.features.classifier import Classifier
from remuda.scores.features.inception import Inception
from remuda.scores.features.network import find_network
from remuda.scores.floors import Floors
from remuda.scores.kinds import KINDS, NEEDS, Kind, Measured, Subject, wanted_kinds
from remuda.scores.reference import look


class Evaluator:
    """Knows the real images; ``score`` compares samples with them."""

    def __init__(
        self,
        data: DataConfig,
        config: ScoreConfig,
        device: torch.device,
        say: Callable[[str], None],
        num_labels: int
        | None = None,  # that the model can be asked for, 0: none; None: all that the data have
        classes: Sequence[str]
        | None = None,  # that the model's data had; None: whatever these have
    ):
        self.config, self.say = config, say
        data = replace(
            data, limit=0, partition="auto"
        )  # the whole split is the reference, whatever was trained on
        dataset, other = load_data(data, config.reference), self._other_split(data)
        if classes is not None and list(classes) != list(dataset.classes):
            raise UserError(
                f"the classes of {dataset.name} are not those that the run was trained on, {', '.join(classes[:12])}: "
                "score it against data with the same classes"
            )
        self.num_labels = len(dataset.classes) if num_labels is None else num_labels
        self.is_points = dataset.images.is_floating_point()
        self.network: FeatureNetwork | None = None
        if not self.is_points:
            self.network = find_network(data, dataset.shape, config.classifier, device, say)
        # What cannot be had is missed before all images are looked at, and before anything is trained.
        self.has_other_split = other is not None
        self._suited_kinds(has_labels=self.num_labels > 0)
        self.reference = look(dataset, config.reference, self.network, device, say)
        self.held_out = (
            None if other is None else look(other, self._other, self.network, device, say)
        )
        self.floors = Floors(self.reference, self.held_out, self.network, self.num_labels, say)

    @property
    def _other(self) -> Split:
        return "test" if self.config.reference == "train" else "train"

    def _other_split(self, data: DataConfig) -> Dataset | None:
        try:
            return load_data(data, self._other)
        except UserError as error:
            self.say(f"there is no floor beside the scores, as {error}")
            return None

    def score(self, images: Tensor, labels: Tensor | None, seed: int) -> list[Value]:
        """All scores of the configuration that suit; images (n, C, H, W) as the data set has them.

        Where some kinds cannot describe these images, the user is told, and gets the others.
        """
        began = time.perf_counter()
        if len(images) > 1 and bool((images == images[:1]).all()):
            raise UserError(
                f"all {len(images):,} samples are equal, which no score describes: the generator has collapsed, score "
                "an earlier checkpoint"
            )
        features = None if self.network is None else self.network(images)
        subject = Subject(images, labels, self.num_labels, features, seed)
        shared = time.perf_counter() - began
        values: list[Value] = []
        reasons: list[str] = []
        for name, kind in self._suited_kinds(labels is not None).items():
            began = time.perf_counter()
            try:
                measured = kind.measure(subject, self.reference, self.held_out)
            except UserError as error:
                reasons.append(f"no {name}, as {error}")
                continue
            seconds = shared + time.perf_counter() - began
            values += self._values(name, kind, measured, subject, round(seconds, 3))
        if not values:
            raise UserError("; ".join(reasons))
        for reason in reasons:
            self.say(reason)
        return values

    def _suited_kinds(self, has_labels: bool) -> dict[str, Kind]:
        have = {"points"} if self.is_points else {"images"}
        facts = {
            "head": self.network is not None and self.network.has_head,
            "classifier": isinstance(self.network, Classifier),
            "labels": has_labels,
            "held-out": self.has_other_split,
            "trained-on": self.config.reference == "train",
        }
        have |= {name for name, fact in facts.items() if fact}
        wanted = wanted_kinds(self.config.kinds)
        if wanted in (["auto"], ["all"]):
            every = wanted == ["all"]
            return {
                name: k for name, k in KINDS.items() if k.needs <= have and (every or k.by_default)
            }
        for name in wanted:
            for need in NEEDS:  # in a fixed order
                if need in KINDS[name].needs - have:
                    raise UserError(f"{name} cannot be measured here: {NEEDS[need]}")
        return {name: KINDS[name] for name in wanted}

    def _values(
        self, name: str, kind: Kind, measured: Measured, subject: Subject, seconds: float
    ) -> list[Value]:
        floor = self.floors.of(name, kind, len(subject.images))
        network = self.network if kind.looks else None
        split = self.reference.split if kind.compares else ""
        seen_by = network.name.split("-")[0] if network else ("" if self.is_points else "pixels")
        return [
            Value(
                name=protocol_name(self._shown(part), len(subject.images), split, seen_by),
                **measure._asdict(),
                floor=floor.values.get(part),
                floor_samples=floor.num_images if part in floor.values else 0,
                num_samples=len(subject.images),
                seed=subject.seed,
                reference=split,
                num_reference=len(self.reference.images) if split else 0,
                reference_digest=self.reference.digest if split else "",
                network=network.name if network else "",
                network_digest=network.digest if network else "",
                precision=network.precision if network else "fp64",
                seconds=seconds,
            )
            for part, measure in measured.items()
        ]

    def _shown(self, part: str) -> str:
        """An Inception score by another classifier than Inception goes by the name of its data."""
        if part != "is" or isinstance(self.network, Inception):
            return part
        return self.reference.name.split(":")[0] + "-score"


def protocol_name(kind: str, num_samples: int, split: str, seen_by: str) -> str:
    """fid_10k_train_inception: what, of how many samples, against which split, seen by whom."""
    count = f"{num_samples // 1000}k" if num_samples % 1000 == 0 else str(num_samples)
    return "_".join(part for part in (kind, count, split, seen_by) if part)
