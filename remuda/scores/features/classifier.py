"""A classifier of the data as the judge of its images: for MNIST, the MNIST score and the FID of the MD-GAN paper.

It is trained once for each data set, kept in a cache, and never trained again while data and recipe stay the same. The
one of the digits comes with the package; ``ship()`` makes it.
"""

import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from remuda.data.config import FOLDER, DataConfig
from remuda.data.datasets import Dataset, load
from remuda.errors import UserError, tell
from remuda.scores.base import FeatureNetwork, Features
from remuda.scores.digests import tensor_digest
from remuda.scores.features import classifier_files as files
from remuda.scores.features.lenet import LeNet, Recipe, fit, judge

RECIPE = Recipe()
SIZES = range(8, 65)  # pixels a side that the recipe was made for


class Classifier(FeatureNetwork):
    """Features are the hidden layer's values, probabilities those of the data's classes."""

    precision = "fp32"
    has_head = True

    def __init__(
        self, name: str, shape: tuple[int, int, int], network: LeNet, accuracy: float | None
    ):
        self.name = name
        self.shape = shape  # of an image
        self.network = network
        self.accuracy = accuracy  # on the test split, 0..1; None where the data have none
        self.digest = tensor_digest(network.state_dict())

    def __call__(self, images: Tensor) -> Features:
        found = tuple(images.shape[1:])
        if images.dtype != torch.uint8 or found != self.shape:
            raise UserError(
                f"{self.name} looks at images of {_times(self.shape)} in bytes, not at {_times(found)} in "
                f"{images.dtype}: take the classifier of the data that these were made after"
            )
        features, logits = judge(self.network, images, self.network.head.weight.device)
        return Features(features, logits.softmax(dim=1))


def train_classifier(
    train: Dataset,
    test: Dataset | None,
    device: torch.device,
    seed: int = 0,
    recipe: Recipe = RECIPE,
) -> Classifier:
    """The same data and seed give the same weights, to the bit on the same machine and device."""
    _check(train)
    network = LeNet(train.shape, len(train.classes), recipe)
    fit(network, train, recipe, seed, device)
    accuracy = None
    if test is not None:
        _, logits = judge(network, test.images, device)
        accuracy = (logits.argmax(dim=1).cpu() == test.labels).double().mean().item()
    return Classifier(classifier_name(train.name), train.shape, network, accuracy)


def find_classifier(
    config: DataConfig,
    device: torch.device,
    *,
    seed: int = 0,
    recipe: Recipe = RECIPE,
    say: Callable[[str], None] = tell,
) -> Classifier:
    """The classifier of a run's data, at its size and channels: shipped, from the cache, or trained now.

    It is trained on the whole training split, even where the run has a limit. ``say`` hears a sentence when training
    starts and when it ends, and why a file could not be used or kept.
    """
    train = load(replace(config, limit=0))
    _check(train)
    stamp = files.Stamp(
        name=classifier_name(train.name),
        data=tensor_digest({"images": train.images, "labels": train.labels}),
        recipe=recipe.digest(seed),
    )
    for path in (files.shipped(stamp), files.cached(stamp)):
        network = LeNet(train.shape, len(train.classes), recipe)
        try:
            kept = files.read(path, stamp, network)
        except files.Unusable as reason:
            say(f"{path} cannot be used ({reason}), so the classifier is trained again")
            continue
        if kept is not None:
            return Classifier(stamp.name, train.shape, network.to(device), kept.accuracy)
    return _train_and_keep(train, config, stamp, device, seed, recipe, say)


def _train_and_keep(
    train: Dataset,
    config: DataConfig,
    stamp: files.Stamp,
    device: torch.device,
    seed: int,
    recipe: Recipe,
    say: Callable[[str], None],
) -> Classifier:
    say(
        f"training {stamp.name} on {len(train.labels):,} images, once for these data, in a minute or a few"
    )
    try:
        test = load(replace(config, limit=0), "test")
    except UserError as error:
        if not config.name.startswith(
            FOLDER
        ):  # a folder may well have no test split; the others always have one
            raise
        say(f"the accuracy of {stamp.name} cannot be told, as {error}")
        test = None
    start = time.perf_counter()
    classifier = train_classifier(train, test, device, seed, recipe)
    seconds = time.perf_counter() - start
    judged = (
        ""
        if classifier.accuracy is None
        else f", {classifier.accuracy:.2%} of the test images right"
    )
    say(f"{stamp.name} is trained: {seconds:.0f} seconds{judged}")
    path = files.cached(stamp)
    try:
        files.write(path, stamp, classifier.network, classifier.accuracy)
    except OSError as error:
        say(
            f"{stamp.name} cannot be kept in {path.parent} ({error}), so it will be trained again: set REMUDA_CACHE"
        )
    return classifier


def ship() -> Path:
    """Train the digits' classifier, and put it where the package has it."""
    config = DataConfig(name="digits")
    train, test = load(config), load(config, "test")
    classifier = train_classifier(train, test, torch.device("cpu"))
    data = tensor_digest({"images": train.images, "labels": train.labels})
    stamp = files.Stamp(name=classifier.name, data=data, recipe=RECIPE.digest(0))
    files.write(files.shipped(stamp), stamp, classifier.network, classifier.accuracy)
    return files.shipped(stamp)


def classifier_name(dataset_name: str) -> str:
    """lenet-mnist; a folder of images gives its own name, without what separates the parts of a score's name."""
    if dataset_name.startswith(FOLDER):
        dataset_name = Path(dataset_name.removeprefix(FOLDER)).expanduser().resolve().name
    return "lenet-" + (re.sub(r"[^A-Za-z0-9.]+", "-", dataset_name).strip("-") or "folder")


def _check(train: Dataset) -> None:
    name = train.name
    if train.images.dtype != torch.uint8:
        raise UserError(
            f"{name} has points, which no classifier of images can judge: use the scores of modes for them"
        )
    if len(train.classes) < 2 or sum(count > 0 for count in train.counts) < 2:
        raise UserError(
            f"a classifier needs labelled images of two classes at least, but {name} has one: take inception for "
            "colour images, or sort the images into a folder for each class"
        )
    _, height, width = train.shape
    if height not in SIZES or width not in SIZES:
        raise UserError(
            f"the classifier is made for images of {SIZES[0]} to {SIZES[-1]} pixels a side, but {name} has "
            f"{height} x {width}: set data.size"
        )


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
