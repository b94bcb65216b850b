"""The kinds of scores by name: what each needs, and how it is measured."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor

from remuda.data.synthetic import MODES
from remuda.errors import UserError
from remuda.scores.balance import class_imbalance
from remuda.scores.base import Features
from remuda.scores.classes import class_diversities, class_frechet_distances, class_kernel_distances
from remuda.scores.fid import frechet_distance
from remuda.scores.gaussian import Gaussian
from remuda.scores.inception_score import inception_score
from remuda.scores.kid import kernel_distance
from remuda.scores.manifold import manifold
from remuda.scores.modes import mode_scores
from remuda.scores.neighbours import copying, pixels
from remuda.scores.reference import Reference
from remuda.tensors import random

MAX_SUBSET, MAX_CLASS_SUBSET = 1000, 100  # images in a subset for KID, and for KID of one class
MAX_COPIES = 1000  # samples whose nearest training images are looked for


class Subject(NamedTuple):
    """The images that are judged."""

    images: Tensor  # (n, C, H, W) uint8; points (n, 2, 1, 1)
    labels: Tensor | None  # (n,), where the model was asked for labels
    num_labels: int  # that it can be asked for, whether these images have them all or not
    features: Features | None
    seed: int  # of random subsets


class Measure(NamedTuple):
    value: float
    spread: float | None = None
    classes: list[float] | None = None


Measured = dict[str, Measure]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Scores that are measured together, by the names that they get."""

    measure: Callable[
        [Subject, Reference, Reference | None], Measured
    ]  # subject, reference, held-out images
    needs: frozenset[str]  # keys of NEEDS
    compares: bool = True  # with the reference, whose split then stands in the name
    looks: bool = True  # through the feature network, whose name then stands in the name
    by_default: bool = True
    about: str


def _fid(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    gaussian = Gaussian.of(_features(subject).values)
    return {"fid": Measure(frechet_distance(cast(Gaussian, reference.gaussian), gaussian))}


def _kid(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    real, fake = cast(Features, reference.features).values, _features(subject).values
    size = min(MAX_SUBSET, len(real), len(fake))
    return {
        "kid": Measure(
            *kernel_distance(real, fake, subset_size=size, key=random.key(subject.seed, "kid"))
        )
    }


def _is(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    return {"is": Measure(*inception_score(cast(Tensor, _features(subject).probabilities)))}


def _manifold(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    result = manifold(cast(Features, reference.features).values, _features(subject).values)
    return {name: Measure(value) for name, value in result._asdict().items()}


def _tvd(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    return {
        "tvd": Measure(
            class_imbalance(cast(Tensor, _features(subject).probabilities), reference.labels)
        )
    }


def _class_fid(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    values = class_frechet_distances(*_by_class(subject, reference))
    return {"class-fid": Measure(sum(values) / len(values), None, values)}


def _class_kid(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    arguments = _by_class(subject, reference)
    _, real_labels, _, fake_labels, num_classes = arguments
    smallest = min(
        int(torch.bincount(each, minlength=num_classes).min())
        for each in (real_labels, fake_labels)
    )
    size = max(2, min(MAX_CLASS_SUBSET, smallest))
    pairs = class_kernel_distances(
        *arguments, subset_size=size, key=random.key(subject.seed, "class-kid")
    )
    values = [value for value, _ in pairs]
    return {"class-kid": Measure(sum(values) / len(values), None, values)}


def _diversity(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    values = class_diversities(*_by_class(subject, reference))
    return {"diversity": Measure(min(values), None, values)}


def _copying(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    assert held_out is not None
    rows = held_out.rows[
        torch.linspace(0, len(held_out.rows) - 1, min(MAX_COPIES, len(held_out.rows))).long()
    ]
    fake, real = subject.images[:MAX_COPIES], held_out.images[rows]
    return {
        "copying": Measure(copying(pixels(fake), pixels(real), pixels(reference.images)).fraction)
    }


def _modes(subject: Subject, reference: Reference, held_out: Reference | None) -> Measured:
    found = mode_scores(subject.images, MODES[reference.name])
    return {
        "modes": Measure(found.num_covered),
        "high-quality": Measure(found.high_quality),
        "mode-tvd": Measure(found.total_variation),
    }


def _features(subject: Subject) -> Features:
    return cast(Features, subject.features)


def _by_class(subject: Subject, reference: Reference) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """Of the classes that the model can be asked for."""
    fake_labels, num_classes = cast(Tensor, subject.labels).cpu(), subject.num_labels
    known = (reference.sample_labels < num_classes).nonzero()[:, 0]
    real = cast(Features, reference.features).values
    rows = real[known.to(real.device)]
    return rows, reference.sample_labels[known], _features(subject).values, fake_labels, num_classes


NEEDS = {  # what a kind may need, and what to tell a user who has not got it
    "images": "it is for images, not for points",
    "points": "it is for the points of ring and grid, not for images",
    "head": "the network has no head that gives probabilities: put its public weights into the data folder",
    "classifier": "it needs a classifier of the data's own classes: ask for --classifier train",
    "labels": "it needs a model that can be asked for labels",
    "held-out": "it needs real images that are not in the reference, and the data have no other split",
    "trained-on": "copies are looked for in the training images: score against --reference train",
}
_IMAGES = frozenset({"images"})
KINDS: dict[str, Kind] = {
    "fid": Kind(
        measure=_fid,
        needs=_IMAGES,
        about="Frechet distance of the features, against all reference images",
    ),
    "kid": Kind(
        measure=_kid, needs=_IMAGES, about="kernel distance of the features, over 100 subsets"
    ),
    "is": Kind(
        measure=_is,
        needs=_IMAGES | {"head"},
        compares=False,
        about="Inception score, over 10 splits",
    ),
    "tvd": Kind(
        measure=_tvd,
        needs=_IMAGES | {"classifier"},
        about="distance of predicted classes from the data's",
    ),
    "class-kid": Kind(
        measure=_class_kid, needs=_IMAGES | {"labels"}, about="kernel distance of each class"
    ),
    "diversity": Kind(
        measure=_diversity, needs=_IMAGES | {"labels"}, about="spread within each class, real = 1"
    ),
    "class-fid": Kind(
        measure=_class_fid,
        needs=_IMAGES | {"labels"},
        by_default=False,
        about="Frechet distance of each class",
    ),
    "manifold": Kind(
        measure=_manifold,
        needs=_IMAGES,
        by_default=False,
        about="precision, recall, density and coverage",
    ),
    "copying": Kind(
        measure=_copying,
        needs=_IMAGES | {"held-out", "trained-on"},
        looks=False,
        by_default=False,
        about="part of samples that are nearer to a training image than new images are",
    ),
    "modes": Kind(
        measure=_modes,
        needs=frozenset({"points"}),
        compares=False,
        looks=False,
        about="modes covered, high-quality part, and balance of modes",
    ),
}


def wanted_kinds(text: str) -> list[str]:
    """The kinds that a setting names: known ones, or auto, or all."""
    wanted = [name.strip() for name in text.split(",") if name.strip()]
    known = f"known are auto, all, {', '.join(KINDS)}"
    if not wanted:
        raise UserError(f"no score is asked for: {known}")
    for name in wanted:
        if name in ("auto", "all") and len(wanted) > 1:
            raise UserError(
                f"{name} stands for several scores and cannot be asked for beside others: leave one out"
            )
        if name not in ("auto", "all", *KINDS):
            raise UserError(f"there is no score {name!r}: {known}")
    return wanted
