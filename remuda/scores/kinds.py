"""Define the kinds of scores: their requirements, and the functions that measure them.

``remuda.scores.config.KINDS`` lists their names.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor

from remuda.data.synthetic import MODES
from remuda.errors import UserError
from remuda.scores.balance import class_imbalance
from remuda.scores.base import Features
from remuda.scores.checks import check_rows
from remuda.scores.classes import class_diversities, class_frechet_distances, class_kernel_distances
from remuda.scores.classifier_score import inception_score
from remuda.scores.fid import frechet_distance
from remuda.scores.gaussian import Gaussian
from remuda.scores.kid import kernel_distance
from remuda.scores.manifold import find_balls
from remuda.scores.modes import mode_scores
from remuda.scores.neighbours import copying, pixels
from remuda.scores.reference import Reference
from remuda.tensors import random

MAX_SUBSET, MAX_CLASS_SUBSET = 1000, 100  # images in a subset for KID, and for the KID of one class
MAX_COPIES = 1000  # number of samples to find the nearest training images for
MIN_CLASS = 10  # images of a class that a site needs, so that it is compared with that class

# Each possible requirement of a kind, with the message for users if it is missing.
NEEDS = {
    "images": "it compares images, not points",
    "points": "it evaluates the points of ring and grid, not images",
    "head": (
        "the feature extractor has no head that gives probabilities: put its public weights into "
        "the data folder"
    ),
    "classifier": "it needs a classifier of the data's own classes: use --classifier train",
    "labels": (
        "it needs a model that generates images by label: train one with the strategy "
        "class-parallel or with networks.conditional=true"
    ),
    "held-out": (
        "it needs real images that are not in the reference, but the data have no other split: add "
        "one, or leave the score out"
    ),
    "trained-on": "it searches for copies of training images: use --reference train",
}


class Subject(NamedTuple):
    """The images to evaluate."""

    images: Tensor  # (n, C, H, W) uint8; points (n, 2, 1, 1)
    labels: Tensor | None  # (n,), if labels were given to the model
    num_labels: int  # number of labels that the model accepts; these images may have fewer
    features: Features | None
    seed: int  # seed of random subsets


class Measure(NamedTuple):
    """One measured score."""

    value: float
    spread: float | None = None
    classes: list[float] | None = None
    # If the value is a fraction of the samples: which of them count. With the images of several
    # sites, a sample counts if it counts at one of them.
    hits: Tensor | None = None


Measured = dict[str, Measure]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Scores that are measured together."""

    # maps the subject, the reference and held-out images to measures by score name
    measure: Callable[[Subject, Reference, Reference | None], Measured]
    needs: frozenset[str]  # keys of NEEDS
    compares: bool = True  # whether it uses the reference; then the score's name contains its split
    uses_features: bool = True  # then the score's name contains the feature extractor
    by_default: bool = True  # whether "auto" includes it
    parts: tuple[str, ...] = ()  # names of its scores; empty: one score with the name of the kind
    # Whether it uses only the mean and covariance of the reference's features, and its labels. Then
    # the value for several sites is exactly that of all their images in one place.
    pools: bool = False
    # of scores by class: turns the values of the classes into one value
    of_classes: Callable[[Sequence[float]], float] = fmean
    # For kinds of users: whether "lower" or "higher" values are better; ours are in directions.py.
    better: Literal["", "lower", "higher"] = ""

    def compute(
        self, subject: Subject, reference: Reference, held_out: Reference | None
    ) -> Measured:
        """Return the measures; explain mistakes in users' functions."""
        if getattr(self.measure, "__module__", "").startswith("remuda."):
            return self.measure(subject, reference, held_out)
        try:
            measured = self.measure(subject, reference, held_out)
            problem = self._mistake(measured)
        except UserError:
            raise
        except Exception as error:
            problem = f"its function raises {type(error).__name__}: {error}"
        if problem:
            raise UserError(f"{problem}: correct the score")
        return measured

    def _mistake(self, measured: object) -> str:
        """Say what is wrong with the result of a user's function; an empty text if nothing is."""
        if not isinstance(measured, dict) or not measured:
            return "its function must return a dict of remuda.scores.Measure by name"
        for name, measure in measured.items():
            if self.parts and name not in self.parts:
                return f"its function returns {name!r}, which its parts do not list"
            if not isinstance(measure, Measure) or not isinstance(measure.value, float | int):
                return f"{name!r} is not a Measure of a float"
        return ""


def _fid(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    gaussian = Gaussian.of(_features(subject).values)
    return {"fid": Measure(frechet_distance(cast(Gaussian, reference.gaussian), gaussian))}


def _kid(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    real, fake = cast(Features, reference.features).values, _features(subject).values
    check_rows(real, "real images", at_least=2)  # a site may have a single image
    size = min(MAX_SUBSET, len(real), len(fake))
    key = random.key(subject.seed, "kid")
    return {"kid": Measure(*kernel_distance(real, fake, subset_size=size, key=key))}


def _inception_score(
    subject: Subject, reference: Reference, held_out: Reference | None
) -> Measured:
    return {"is": Measure(*inception_score(_probabilities(subject)))}


def _tvd(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    return {"tvd": Measure(class_imbalance(_probabilities(subject), reference.labels))}


def _class_kid(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    def measure(
        real: Tensor, real_labels: Tensor, fake: Tensor, fake_labels: Tensor, num_classes: int
    ) -> list[float]:
        smallest = min(
            int(torch.bincount(labels, minlength=num_classes).min())
            for labels in (real_labels, fake_labels)
        )
        pairs = class_kernel_distances(
            real,
            real_labels,
            fake,
            fake_labels,
            num_classes,
            subset_size=max(2, min(MAX_CLASS_SUBSET, smallest)),
            key=random.key(subject.seed, "class-kid"),
        )
        return [value for value, _ in pairs]

    return {"class-kid": _of_classes(measure, fmean, subject, reference)}


def _diversity(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    return {"diversity": _of_classes(class_diversities, min, subject, reference)}


def _class_fid(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    return {"class-fid": _of_classes(class_frechet_distances, fmean, subject, reference)}


def _of_classes(
    measure: Callable[[Tensor, Tensor, Tensor, Tensor, int], list[float]],
    summary: Callable[[Sequence[float]], float],
    subject: Subject,
    reference: Reference,
) -> Measure:
    """Measure each class. At one of several sites, the value of a class that it lacks is NaN."""
    real, real_labels, fake, fake_labels, num_classes = _by_class(subject, reference)
    if not reference.is_part:
        values = measure(real, real_labels, fake, fake_labels, num_classes)
        return Measure(summary(values), None, values)
    present = torch.bincount(real_labels, minlength=num_classes) >= MIN_CLASS
    if not present.any():
        raise UserError(
            f"this site has fewer than {MIN_CLASS} images of every class: leave the score out"
        )
    number = present.long().cumsum(0) - 1  # the classes of this site, counted from 0
    is_real, is_fake = present[real_labels], present[fake_labels]
    found = measure(
        real[is_real.to(real.device)],
        number[real_labels[is_real]],
        fake[is_fake.to(fake.device)],
        number[fake_labels[is_fake]],
        int(present.sum()),
    )
    rest = iter(found)
    values = [next(rest) if is_present else math.nan for is_present in present.tolist()]
    return Measure(summary(found), None, values)


def _manifold(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    balls = find_balls(cast(Features, reference.features).values, _features(subject).values)
    measured = {name: Measure(value) for name, value in balls.scores()._asdict().items()}
    hits = balls.num_real > 0
    return measured | {"precision": measured["precision"]._replace(hits=hits)}


def _copying(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    if held_out is None:  # at one of several sites
        raise UserError("copying needs a test split at every site: add one, or leave copying out")
    count = min(MAX_COPIES, len(held_out.rows))
    rows = held_out.rows[torch.linspace(0, len(held_out.rows) - 1, count).long()]
    fake, real = pixels(subject.images[:MAX_COPIES]), pixels(held_out.images[rows])
    found = copying(fake, real, reference.images)
    return {"copying": Measure(found.fraction, hits=found.is_copy)}


def _mode_coverage(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    modes = MODES[reference.name]
    numbers = [int(name.removeprefix("mode ")) for name in reference.classes]
    modes = replace(modes, centres=tuple(modes.centres[number] for number in numbers))
    found = mode_scores(subject.images, modes)
    return {
        "modes": Measure(found.num_covered),
        "high-quality": Measure(found.high_quality),
        "mode-tvd": Measure(found.total_variation),
    }


def _features(subject: Subject) -> Features:
    return cast(Features, subject.features)


def _probabilities(subject: Subject) -> Tensor:
    return cast(Tensor, _features(subject).probabilities)


def _by_class(subject: Subject, reference: Reference) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """Return the arguments of scores by class, for the classes that the model knows."""
    fake_labels, num_classes = cast(Tensor, subject.labels).cpu(), subject.num_labels
    known = (reference.sample_labels < num_classes).nonzero()[:, 0]
    real = cast(Features, reference.features).values
    rows = real[known.to(real.device)]
    return rows, reference.sample_labels[known], _features(subject).values, fake_labels, num_classes


_IMAGES = frozenset({"images"})
_LABELS = frozenset({"images", "labels"})

FID = Kind(measure=_fid, needs=_IMAGES, pools=True)
KID = Kind(measure=_kid, needs=_IMAGES)
INCEPTION_SCORE = Kind(measure=_inception_score, needs=_IMAGES | {"head"}, compares=False)
TVD = Kind(measure=_tvd, needs=_IMAGES | {"classifier"}, pools=True)
CLASS_KID = Kind(measure=_class_kid, needs=_LABELS)
DIVERSITY = Kind(measure=_diversity, needs=_LABELS, of_classes=min)
CLASS_FID = Kind(measure=_class_fid, needs=_LABELS, by_default=False)
MANIFOLD = Kind(
    measure=_manifold,
    needs=_IMAGES,
    by_default=False,
    parts=("precision", "recall", "density", "coverage"),
)
COPYING = Kind(
    measure=_copying,
    needs=_IMAGES | {"held-out", "trained-on"},
    uses_features=False,
    by_default=False,
)
MODE_COVERAGE = Kind(
    measure=_mode_coverage,
    needs=frozenset({"points"}),
    compares=False,
    uses_features=False,
    parts=("modes", "high-quality", "mode-tvd"),
)
