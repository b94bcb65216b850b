"""Find out which images a folder or an archive contains, and which class each one belongs to.

Classes come from labels next to the images (see ``labels``) or from the folders: every sub-folder
is a class. Sub-folders named train/, test/, val/ or validation/ are splits.
"""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from remuda.data.config import Split
from remuda.data.containers import SPLITS, Container
from remuda.data.decoding import is_image
from remuda.data.labels import find_labels, sorted_classes
from remuda.errors import UserError


@dataclass(frozen=True)
class Listing:
    """The images of one split, class by class."""

    classes: tuple[str, ...]
    names: list[str]
    labels: np.ndarray  # (M,) int64


def list_images(container: Container, split: Split) -> Listing:
    """List the images of a split. Raise if it has none, or if their classes are unclear."""
    top = _top(container)
    folders = set(_children(container, top))
    others = folders & set(SPLITS[1:])
    has_splits = "train" in folders and (folders == {"train"} or bool(others))
    if split == "train":
        return _list_classes(container, f"{top}train/" if has_splits else top)
    if not has_splits:
        _no_test(container)
    train = _list_classes(container, f"{top}train/")
    for name in SPLITS[1:]:
        if name in folders and (found := _list_test(container, f"{top}{name}/", train)):
            return found
    _no_test(container)


def _no_test(container: Container) -> NoReturn:
    raise UserError(
        f"{container.root} has no test split: put the class folders into sub-folders train/ and "
        "test/"
    )


def _list_test(container: Container, prefix: str, train: Listing) -> Listing | None:
    """List a split with the numbers of the training classes; None if it has other classes.

    A folder test/ without the class folders of train/ has no labels, so it is skipped.
    """
    found = _list_classes(container, prefix)
    if not set(found.classes) <= set(train.classes):
        return None
    numbers = np.array([train.classes.index(name) for name in found.classes])
    return Listing(train.classes, found.names, numbers[found.labels])


def _list_classes(container: Container, prefix: str) -> Listing:
    """List every sub-folder as a class, or the images in the folder itself as one class."""
    images = [name for name in container.names if name.startswith(prefix) and is_image(name)]
    labels = find_labels(container, prefix, images)
    if labels is not None:
        classes = sorted_classes(list(labels.values()))
        numbers = {name: i for i, name in enumerate(classes)}
        return _grouped(classes, images, np.array([numbers[labels[name]] for name in images]))
    folders = _children(container, prefix)
    inner = [name[len(prefix) :].partition("/") for name in images]
    loose = [first for first, slash, _ in inner if not slash]
    if folders and loose:
        raise UserError(
            f"{container.root / prefix} contains both images (such as {loose[0]}) and folders "
            f"(such as {folders[0]}): keep one folder for each class, or only images"
        )
    if not folders:
        if not images:
            remedy = "name another folder or archive with data.name=folder:PATH"
            raise _without_images(container, prefix, remedy)
        return Listing((_name(container),), images, np.zeros(len(images), np.int64))
    numbers = {name: i for i, name in enumerate(folders)}
    found = np.array([numbers[first] for first, _, _ in inner], np.int64)
    for name, count in zip(folders, np.bincount(found, minlength=len(folders)), strict=True):
        if not count:
            raise _without_images(container, f"{prefix}{name}", "move this class elsewhere")
    return _grouped(tuple(folders), images, found)


def _grouped(classes: tuple[str, ...], images: list[str], labels: np.ndarray) -> Listing:
    order = np.argsort(labels, kind="stable")
    return Listing(classes, [images[i] for i in order], labels[order].astype(np.int64))


def _without_images(container: Container, prefix: str, remedy: str) -> UserError:
    return UserError(
        f"{container.root / prefix} contains no images that Pillow can read: add some, or {remedy}"
    )


def _top(container: Container) -> str:
    """Return the prefix to skip: archives often contain one folder with everything in it."""
    tops = _children(container, "")
    is_loose = any("/" not in name and is_image(name) for name in container.names)
    if not container.is_archive or len(tops) != 1 or is_loose or tops[0] in SPLITS:
        return ""
    inner = f"{tops[0]}/"
    has_metadata = any(name.startswith(f"{inner}metadata.") for name in container.names)
    return inner if _children(container, inner) or has_metadata else ""


def _children(container: Container, prefix: str) -> list[str]:
    """Return the names of the visible folders directly below a folder, sorted."""
    inner = (name[len(prefix) :] for name in container.folders if name.startswith(prefix))
    return sorted(name for name in inner if name and "/" not in name)


def _name(container: Container) -> str:
    """Return the name of the only class if there are no class folders."""
    root = container.root.resolve()
    return root.stem if root.is_file() else root.name
