"""Score samples against the images of several sites, without moving an image.

Every rank has the images of one site. Rank 0 sends the samples and their features to the other
ranks. Each rank measures its own images, and sends only these statistics to rank 0:

- once: the number of images, their number by class, a digest of the images, and the count, mean
  and scatter of their features;
- for each scoring and kind of score: the value against its own images, the values by class, and
  for precision and copying one bit per sample.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from remuda.data import DataConfig
from remuda.engines import Communicator
from remuda.errors import UserError
from remuda.scores.base import FeatureExtractor, Features
from remuda.scores.config import KINDS, ScoreConfig
from remuda.scores.digests import text_digest
from remuda.scores.features.classifier import Classifier
from remuda.scores.features.sharing import share
from remuda.scores.gaussian import Gaussian
from remuda.scores.kinds import Kind, Measured, Subject
from remuda.scores.messages import NOTHING, contents_of, measured_of, pack, unpack
from remuda.scores.pooling import combine
from remuda.scores.reference import Reference, Splits, load_splits, make_reference, other_split
from remuda.system.text import Notify, ignore


class Source(NamedTuple):
    """The images of one site."""

    rank: int  # of the run
    host: str
    data: DataConfig


class Site(NamedTuple):
    """What rank 0 knows about a site."""

    rank: int
    host: str
    num_images: int
    class_counts: list[int]
    shape: list[int]
    classes: list[str]
    digest: str


class Answer(NamedTuple):
    """The measures of one kind at all sites."""

    measured: list[Measured | str]  # a text says why a site has no measure

    def value(self, site: int, part: str) -> float | None:
        """Return the score of the samples against the images of one site."""
        found = self.measured[site]
        if isinstance(found, str) or part not in found or not math.isfinite(found[part].value):
            return None
        return found[part].value


class Sites:
    """The images of all sites. Rank 0 measures; the other ranks serve it with ``answer``.

    ``sources`` are the sites of this process. Only rank 0 knows ``sites``, all of them.
    """

    def __init__(
        self,
        communicator: Communicator,
        sources: Sequence[Source],
        config: ScoreConfig,
        device: torch.device,
        notify: Notify,
    ):
        self.communicator, self.sources, self.config = communicator, sources, config
        self.device, self.notify = device, notify
        # Scores over several sites have no floors, so the message about missing ones says nothing.
        self.splits = [load_splits(each.data, config.reference, ignore) for each in sources]
        self.references: list[tuple[Reference, Reference | None]] = []
        self.sites: list[Site] = []
        self.gaussians: list[Gaussian] = []
        self.sent = 0  # bytes of statistics that this process has sent to rank 0

    def __len__(self) -> int:
        return len(self.sites)

    def open(self, extractor: FeatureExtractor | None = None, num_classes: int = 0) -> None:
        """Compute the features of the own images, and send their moments to rank 0.

        The extractor of rank 0 and its number of classes, 0 = all, count for all ranks.
        """
        path = self.sources[0].data.path
        extractor, num_classes = share(self.communicator, extractor, num_classes, path, self.device)
        make = [self.config.reference, other_split(self.config.reference)]
        tensors: dict[str, Tensor] = {}
        facts = []
        for i, (source, splits) in enumerate(zip(self.sources, self.splits, strict=True)):
            if isinstance(extractor, Classifier) and splits.dataset.shape != extractor.shape:
                raise _different(source.rank)
            splits = splits.first_classes(num_classes) if num_classes else splits
            reference, held_out = (
                None
                if dataset is None
                else make_reference(dataset, split, extractor, self.device, self.notify, True)
                for dataset, split in zip(splits, make, strict=True)
            )
            assert reference is not None
            self.references.append((reference, held_out))
            facts.append(_describe(source, splits, reference))
            if reference.gaussian is not None:
                moments = reference.gaussian.tensors()
                tensors |= {f"{i}.{name}": tensor for name, tensor in moments.items()}
        for theirs, others in self._report(tensors, facts):
            for i, site in enumerate(others):
                self.sites.append(Site(*site))
                names = ("count", "mean", "scatter")
                if f"{i}.mean" in theirs:
                    found = {name: theirs[f"{i}.{name}"] for name in names}
                    self.gaussians.append(Gaussian.from_tensors(found))
        self._check()

    def pooled(self) -> Reference:
        """Return the moments and labels of all sites as one reference, without its images."""
        first, _ = self.references[0]
        gaussian = None
        if self.gaussians:
            gaussian = Gaussian(self.gaussians[0].width)
            for each in self.gaussians:
                gaussian.merge(each)
        counts = torch.tensor([site.class_counts for site in self.sites]).sum(0)
        digest = text_digest(" ".join(site.digest for site in self.sites))
        return replace(
            first,
            images=first.images[:0],
            labels=torch.arange(len(counts)).repeat_interleave(counts),
            digest=digest,
            key=digest,
            gaussian=gaussian,
            features=None,
            rows=torch.empty(0, dtype=torch.int64),
        )

    def measure(self, subject: Subject, kinds: Mapping[str, Kind]) -> dict[str, Answer]:
        """Measure the samples at all sites. Only rank 0 calls this."""
        names = list(kinds)
        self.communicator.ask("score", [names, subject.num_labels, subject.seed])
        if self.communicator.num_ranks > 1:
            self.communicator.broadcast(pack(contents_of(subject, kinds)))
        found = self._measure(subject, names)
        return {name: Answer([each[name] for each in found]) for name in names}

    def answer(self, request: Any) -> None:
        """Measure the samples of rank 0 at the sites of this process."""
        names, num_labels, seed = request
        tensors, _ = unpack(self.communicator.broadcast(NOTHING))
        features = None
        if "features" in tensors:
            values = tensors["features"].to(self.device)
            probabilities = tensors.get("probabilities")
            if probabilities is not None:
                probabilities = probabilities.to(self.device)
            features = Features(values, probabilities)
        labels = tensors.get("labels")
        self._measure(Subject(tensors["images"], labels, num_labels, features, seed), names)

    def serve(self) -> None:
        """Open the sites of this process, and measure samples until rank 0 has no more."""
        self.open()
        self.communicator.serve({"score": self.answer})

    def combine(self, kind: Kind, answer: Answer) -> Measured:
        """Return one measure for the values of all sites."""
        measured: list[Measured] = []
        for site, found in zip(self.sites, answer.measured, strict=True):
            if isinstance(found, str):
                raise UserError(f"rank {site.rank} on {site.host}: {found}")
            measured.append(found)
        num_images = [site.num_images for site in self.sites]
        counts = [site.class_counts for site in self.sites]
        return combine(measured, num_images, counts, kind.of_classes)

    def table(self, answer: Answer, part: str) -> list[dict[str, Any]]:
        """Return a line for each site, with its value of one score."""
        return [
            {
                "rank": site.rank,
                "host": site.host,
                "images": site.num_images,
                "value": answer.value(i, part),
            }
            for i, site in enumerate(self.sites)
        ]

    def _measure(self, subject: Subject, names: Sequence[str]) -> list[dict[str, Measured | str]]:
        """Measure the own sites. Return the measures of all sites on rank 0, else the own ones."""
        tensors: dict[str, Tensor] = {}
        facts: list[dict[str, Any]] = []
        for i, (reference, held_out) in enumerate(self.references):
            measures: dict[str, Any] = {}
            for name in names:
                try:
                    measured = KINDS[name].compute(subject, reference, held_out)
                except UserError as error:
                    measures[name] = str(error)
                    continue
                measures[name] = {
                    part: [one.value, one.spread, one.classes] for part, one in measured.items()
                }
                for part, one in measured.items():
                    if one.hits is not None:
                        tensors[f"{i}/{name}/{part}"] = one.hits.cpu()
            facts.append(measures)
        found: list[dict[str, Measured | str]] = []
        for theirs, others in self._report(tensors, facts):
            found += [
                {name: measured_of(i, name, values, theirs) for name, values in each.items()}
                for i, each in enumerate(others)
            ]
        return found

    def _report(
        self, tensors: dict[str, Tensor], facts: Any
    ) -> list[tuple[dict[str, Tensor], Any]]:
        """Send statistics to rank 0. Return those of all ranks on rank 0, else the own ones."""
        if self.communicator.num_ranks == 1:
            return [(tensors, facts)]
        message = pack(tensors, facts)
        if not self.communicator.is_root:
            self.sent += len(message)
        return [unpack(each) for each in self.communicator.report(message)]

    def _check(self) -> None:
        """Raise if the sites have different kinds of images."""
        first = self.sites[0]
        for site in self.sites:
            if site.shape != first.shape or site.classes != first.classes:
                raise _different(site.rank)


def _different(rank: int) -> UserError:
    return UserError(
        f"the images of rank {rank} have another shape or other classes than those of rank 0: "
        "give all ranks images of the same shape with the same classes"
    )


def _describe(source: Source, splits: Splits, reference: Reference) -> Site:
    dataset = splits.dataset
    counts = torch.bincount(dataset.labels, minlength=len(dataset.classes)).tolist()
    return Site(
        rank=source.rank,
        host=source.host,
        num_images=len(dataset.labels),
        class_counts=counts,
        shape=list(dataset.shape),
        classes=list(dataset.classes),
        digest=reference.digest,
    )
