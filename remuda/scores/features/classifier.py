"""Use a classifier of the data as feature extractor, as MD-GAN does for its MNIST score and FID.

The classifier is trained once for each data set and cached. It is trained again only if the data or
the recipe changes. The package contains the classifier for the digits; ``ship()`` creates it.
"""

import re
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from remuda.data.config import FOLDER, DataConfig
from remuda.data.datasets import Dataset, load
from remuda.errors import UserError
from remuda.scores.base import FeatureExtractor, Features
from remuda.scores.digests import tensor_digest
from remuda.scores.features import classifier_files as files
from remuda.scores.features.lenet import LeNet, Recipe, extract, fit
from remuda.system.text import Notify, ignore

RECIPE = Recipe()
SIZES = range(8, 65)  # image sides in pixels that the recipe supports


class Classifier(FeatureExtractor):
    """Extract the values of the hidden layer and the class probabilities."""

    precision = "fp32"
    has_head = True

    def __init__(
        self, name: str, shape: tuple[int, int, int], network: LeNet, accuracy: float | None
    ):
        self.name = name
        self.shape = shape  # shape of an image
        self.network = network
        self.accuracy = accuracy  # on the test split, 0..1; None if the data have no test split
        self.digest = tensor_digest(network.state_dict())

    def __call__(self, images: Tensor) -> Features:
        found = tuple(images.shape[1:])
        if images.dtype != torch.uint8 or found != self.shape:
            raise UserError(
                f"{self.name} needs images of {_times(self.shape)} in torch.uint8, not "
                f"{_times(found)} in {images.dtype}: use the classifier of these images' data set"
            )
        features, logits = extract(self.network, images, self.network.head.weight.device)
        return Features(features, logits.softmax(dim=1))


def from_weights(
    name: str, shape: tuple[int, int, int], weights: dict[str, Tensor], device: torch.device
) -> Classifier:
    """Return a classifier with weights that another process has trained by the same recipe."""
    network = LeNet(shape, len(weights["head.weight"]), RECIPE)
    network.load_state_dict(weights, assign=True)
    network.requires_grad_(False)
    return Classifier(name, shape, network.to(device), None)


def train_classifier(
    train: Dataset,
    test: Dataset | None,
    device: torch.device,
    seed: int = 0,
    recipe: Recipe = RECIPE,
) -> Classifier:
    """Train a classifier; the same data, seed, machine and device give bit-identical weights."""
    check_classes(train)
    network = LeNet(train.shape, len(train.classes), recipe)
    fit(network, train, recipe, seed, device)
    accuracy = None
    if test is not None:
        _, logits = extract(network, test.images, device)
        accuracy = (logits.argmax(dim=1).cpu() == test.labels).double().mean().item()
    return Classifier(classifier_name(train.name), train.shape, network, accuracy)


def find_classifier(
    config: DataConfig,
    device: torch.device,
    *,
    seed: int = 0,
    recipe: Recipe = RECIPE,
    notify: Notify = ignore,
) -> Classifier:
    """Return the classifier of a run's data: from the package, from the cache, or trained now.

    It takes images with the size and channels of the run's images. It is trained on the whole
    training split, even if the run sets data.limit. ``notify`` receives a message when training
    starts and ends, and when a file cannot be used or written.
    """
    train = load(replace(config, limit=0))
    check_classes(train)
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
            notify(f"cannot use {path} ({reason}); training the classifier again")
            continue
        if kept is not None:
            return Classifier(stamp.name, train.shape, network.to(device), kept.accuracy)
    notify(
        f"training {stamp.name} on {len(train.labels):,} images, once for these data; this takes "
        "a few minutes at most"
    )
    start = time.perf_counter()
    test = _load_test_split(config, stamp.name, notify)
    classifier = train_classifier(train, test, device, seed, recipe)
    _report(classifier, time.perf_counter() - start, notify)
    _keep(classifier, stamp, notify)
    return classifier


def _load_test_split(config: DataConfig, name: str, notify: Notify) -> Dataset | None:
    try:
        return load(replace(config, limit=0), "test")
    except UserError as error:
        if not config.is_images:  # only a folder may lack a test split
            raise
        notify(f"the accuracy of {name} is unknown: {error}")
        return None


def _report(classifier: Classifier, seconds: float, notify: Notify) -> None:
    accuracy = ""
    if classifier.accuracy is not None:
        accuracy = f", accuracy {classifier.accuracy:.2%} on the test images"
    notify(f"trained {classifier.name} in {seconds:.0f} seconds{accuracy}")


def _keep(classifier: Classifier, stamp: files.Stamp, notify: Notify) -> None:
    path = files.cached(stamp)
    try:
        files.write(path, stamp, classifier.network, classifier.accuracy)
    except OSError as error:
        notify(
            f"cannot write {stamp.name} to {path.parent} ({error}), so it will be trained again: "
            "set REMUDA_CACHE to a writable folder"
        )


def ship() -> Path:
    """Train the classifier of the digits and put it into the package."""
    config = DataConfig(name="digits")
    train, test = load(config), load(config, "test")
    classifier = train_classifier(train, test, torch.device("cpu"))
    data = tensor_digest({"images": train.images, "labels": train.labels})
    stamp = files.Stamp(name=classifier.name, data=data, recipe=RECIPE.digest(0))
    files.write(files.shipped(stamp), stamp, classifier.network, classifier.accuracy)
    return files.shipped(stamp)


def classifier_name(dataset_name: str) -> str:
    """Return a name such as lenet-mnist.

    For a folder of images, use the folder's name without the separators of score names.
    """
    if dataset_name.startswith(FOLDER):
        dataset_name = Path(dataset_name.removeprefix(FOLDER)).expanduser().resolve().name
    return "lenet-" + (re.sub(r"[^A-Za-z0-9.]+", "-", dataset_name).strip("-") or "folder")


def check_classes(train: Dataset) -> None:
    """Raise if the classifier cannot be trained on these data."""
    name = train.name
    if train.images.dtype != torch.uint8:
        raise UserError(
            f"{name} has points, which a classifier of images cannot evaluate: use the scores of "
            "modes"
        )
    if len(train.classes) < 2 or sum(count > 0 for count in train.counts) < 2:
        raise UserError(
            f"a classifier needs labelled images of at least two classes, but {name} has one: use "
            "Inception for colour images, sort the images into one folder per class, or, if each "
            "rank has its own data, let rank 0 have several classes"
        )
    _, height, width = train.shape
    if height not in SIZES or width not in SIZES:
        raise UserError(
            f"the classifier needs images of {SIZES[0]} to {SIZES[-1]} pixels per side, but {name} "
            f"has {height} x {width}: set data.size"
        )


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
