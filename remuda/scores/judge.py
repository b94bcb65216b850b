"""Judges samples: feature network, reference and kinds put together, and every value with its protocol."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from remuda import disk
from remuda.data import DataConfig
from remuda.data import load as load_data
from remuda.errors import UserError
from remuda.scores import cache
from remuda.scores.base import FeatureNetwork, Value
from remuda.scores.classifier import Classifier
from remuda.scores.config import ScoreConfig
from remuda.scores.digests import text_digest
from remuda.scores.inception import Inception
from remuda.scores.kinds import KINDS, NEEDS, Kind, Measured, Subject
from remuda.scores.network import find_network
from remuda.scores.reference import Reference, look


class Judge:
    """Knows the real images; ``score`` compares samples with them."""

    def __init__(self, data: DataConfig, config: ScoreConfig, device: torch.device, say: Callable[[str], None]):
        self.config, self.device, self.say = config, device, say
        data = replace(data, limit=0, partition="auto")  # the whole split is the reference, whatever was trained on
        dataset = load_data(data, config.reference)
        self.is_points = dataset.images.is_floating_point()
        self.network: FeatureNetwork | None = None
        if not self.is_points:
            self.network = find_network(data, dataset.shape, config.classifier, device, say)
        self.reference = look(dataset, config.reference, self.network, device, say)
        self.held_out = self._look_at_other_split(data)
        self._chosen(has_labels=True)  # so that a kind that cannot be had is missed before anything is trained

    def _look_at_other_split(self, data: DataConfig) -> Reference | None:
        other = "test" if self.config.reference == "train" else "train"
        try:
            dataset = load_data(data, other)
        except UserError as error:
            self.say(f"there is no floor beside the scores, as {error}")
            return None
        return look(dataset, other, self.network, self.device, self.say)

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
        subject = Subject(images, labels, features, seed)
        shared = time.perf_counter() - began
        values: list[Value] = []
        reasons: list[str] = []
        for name, kind in self._chosen(labels is not None).items():
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

    def _chosen(self, has_labels: bool) -> dict[str, Kind]:
        have = {"points"} if self.is_points else {"images"}
        facts = {
            "head": self.network is not None and self.network.has_head,
            "classifier": isinstance(self.network, Classifier),
            "labels": has_labels,
            "held-out": self.held_out is not None,
            "trained-on": self.reference.split == "train",
        }
        have |= {name for name, fact in facts.items() if fact}
        wanted = [name.strip() for name in self.config.kinds.split(",") if name.strip()]
        if wanted in (["auto"], ["all"]):
            every = wanted == ["all"]
            return {name: k for name, k in KINDS.items() if k.needs <= have and (every or k.by_default)}
        for name in wanted:
            if name not in KINDS:
                raise UserError(f"there is no score {name!r}: known are auto, all, {', '.join(KINDS)}")
            for need in NEEDS:  # in a fixed order
                if need in KINDS[name].needs - have:
                    raise UserError(f"{name} cannot be measured here: {NEEDS[need]}")
        return {name: KINDS[name] for name in wanted}

    def _values(self, name: str, kind: Kind, measured: Measured, subject: Subject, seconds: float) -> list[Value]:
        floors, floor_samples = self._floors(name, kind, len(subject.images), subject.labels)
        network = self.network if kind.looks else None
        split = self.reference.split if kind.compares else ""
        seen_by = network.name.split("-")[0] if network else ("" if self.is_points else "pixels")
        return [
            Value(
                name=protocol_name(self._shown(part), len(subject.images), split, seen_by),
                **measure._asdict(),
                floor=floors.get(part),
                floor_samples=floor_samples if part in floors else 0,
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

    def _floors(self, name: str, kind: Kind, n: int, labels: Tensor | None) -> tuple[dict[str, float], int]:
        """The same scores of real images that are not in the reference, from the cache where they are there."""
        if self.held_out is None or self.held_out.features is None or not kind.looks:
            return {}, 0
        count = min(n, len(self.held_out.rows))
        return self._measured_floors(name, kind, count, labels), count

    def _measured_floors(self, name: str, kind: Kind, count: int, labels: Tensor | None) -> dict[str, float]:
        assert self.held_out is not None and self.held_out.features is not None and self.network is not None
        num_labels = 0 if labels is None else int(labels.max()) + 1
        parts = name, count, num_labels, self.reference.digest, self.held_out.digest, self.network.digest
        path = cache.folder("floors") / f"{name}-{text_digest(' '.join(map(str, parts)))}.json"
        found = _read_json(path)
        if found is not None:
            return found
        # Rows are spread over the classes in the order of the split: a step through them keeps the spread.
        chosen = torch.linspace(0, len(self.held_out.rows) - 1, count).round().long()
        real_labels = self.held_out.sample_labels[chosen]
        if num_labels:
            chosen, real_labels = chosen[real_labels < num_labels], real_labels[real_labels < num_labels]
        features = self.held_out.features.rows(chosen.to(self.held_out.features.values.device))
        subject = Subject(self.held_out.images[self.held_out.rows[chosen]], real_labels, features, 0)
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


def protocol_name(kind: str, num_samples: int, split: str, seen_by: str) -> str:
    """fid_10k_train_inception: what, of how many samples, against which split, seen by whom."""
    count = f"{num_samples // 1000}k" if num_samples % 1000 == 0 else str(num_samples)
    return "_".join(part for part in (kind, count, split, seen_by) if part)


def _read_json(path: Path) -> dict[str, float] | None:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None  # absent or torn: it is measured again
