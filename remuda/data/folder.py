"""Read a folder or an archive of images; keep the decoded images in memory or in a file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import PIL
import torch
from torch import Tensor

from remuda.data.classes import arrange
from remuda.data.config import DataConfig, Split
from remuda.data.containers import Container, open_container
from remuda.data.decoding import Broken, Target, decode, strictly, target_of
from remuda.data.layouts import list_images
from remuda.data.partitions import evenly
from remuda.data.pool import BrokenFile, decode_all
from remuda.data.storage import ImageFile, obtain
from remuda.errors import UserError
from remuda.system.memory import available_bytes

_VERSION = 1  # increase it if a change to the decoder changes the images
_SHARE = 0.5  # of the free memory that images may take with data.storage = "auto"
_NUM_NAMED = 3  # broken files that a message names


@dataclass(frozen=True, eq=False)
class Images:
    """The decoded images of one split."""

    images: Tensor  # (M, C, H, W) uint8
    labels: np.ndarray  # (M,) int64
    classes: tuple[str, ...]
    num_skipped: int  # broken files that were left out
    file: ImageFile | None  # the images' file, unless they are in memory


class Job(NamedTuple):
    """The images to decode."""

    container: Container
    names: list[str]
    target: Target

    @property
    def num_bytes(self) -> int:
        """Return the size of all decoded images."""
        return len(self.names) * int(np.prod(self.target.shape))


def read(root: Path, config: DataConfig, split: Split) -> Images:
    """Decode the images of a split that the settings choose.

    Raise if some files are broken, unless the settings leave them out.
    """
    if config.channels > 4:
        raise UserError(f"data.channels must be 0, 1, 3 or 4, not {config.channels}")
    container = open_container(root)
    listing = list_images(container, split)
    labels, classes = arrange(listing.labels, listing.classes, config)
    keep = evenly(labels, config.limit)
    names, labels = [listing.names[i] for i in keep], labels[keep]
    with strictly():
        job = Job(container, names, _target(container, names, config))
        if _belongs_in_memory(job, config):
            images, broken = _to_memory(job)
            file = None
        else:
            path, broken = _to_disk(job, config, split)
            file = ImageFile(path, (len(names) - len(broken), *job.target.shape))
            images = file.images
    _check_broken(job, broken, config)
    labels = np.delete(labels, [one.place for one in broken])
    return Images(images, labels, classes, len(broken), file)


def _target(container: Container, names: list[str], config: DataConfig) -> Target:
    """Return the shape of all images, as set or as in the first image that can be decoded."""
    broken = []
    for place, name in enumerate(names):
        try:
            return target_of(decode(container.read(name)), name, config)
        except Broken as error:
            broken.append(BrokenFile(place, name, str(error)))
    raise UserError(_describe(container, len(names), broken) + ": add images that can be read")


def _belongs_in_memory(job: Job, config: DataConfig) -> bool:
    """Return whether the images belong in memory. Raise if they must, but do not fit."""
    needed, free = job.num_bytes, available_bytes()
    if config.storage == "auto":
        return free is None or needed <= _SHARE * free
    if config.storage == "disk":
        return False
    if free is not None and needed > free:
        shape = " x ".join(map(str, job.target.shape))
        raise UserError(
            f"the {len(job.names)} images of {job.container.root} need {needed / 1e9:.1f} GB at "
            f"{shape}, but only {free / 1e9:.1f} GB of memory is free: set data.storage=disk, or a "
            "smaller data.size or data.limit"
        )
    return True


def _to_memory(job: Job) -> tuple[Tensor, list[BrokenFile]]:
    images = np.empty((len(job.names), *job.target.shape), dtype=np.uint8)
    broken: list[BrokenFile] = []
    filled = 0
    for part in decode_all(*job):
        images[filled : filled + len(part.images)] = part.images
        filled += len(part.images)
        broken += part.broken
    return torch.from_numpy(images[:filled]), broken


def _to_disk(job: Job, config: DataConfig, split: Split) -> tuple[Path, list[BrokenFile]]:
    def write(file: BinaryIO) -> dict[str, Any]:
        broken: list[BrokenFile] = []
        for part in decode_all(*job):
            file.write(part.images.data)
            broken += part.broken
        return {"shape": job.target.shape, "broken": broken}

    root = job.container.root.resolve()
    key = [_VERSION, PIL.__version__, str(root), job.container.stamp, split, config.limit]
    key += [config.sides, config.fit, config.filter, config.channels, config.background]
    path, facts = obtain([*key, config.classes], job.num_bytes, write)
    return path, [BrokenFile(*one) for one in facts["broken"]]


def _check_broken(job: Job, broken: list[BrokenFile], config: DataConfig) -> None:
    if broken and not config.skip_broken:
        raise UserError(
            _describe(job.container, len(job.names), broken)
            + ": repair or delete them, or train without them with --skip-broken (--set "
            "data.skip_broken=true)"
        )


def _describe(container: Container, num_images: int, broken: list[BrokenFile]) -> str:
    """Return the part of a sentence that tells which files are broken, and why."""
    named = [f"{one.name} ({one.reason})" for one in broken[:_NUM_NAMED]]
    more = f" and {len(broken) - _NUM_NAMED:,} more" if len(broken) > _NUM_NAMED else ""
    return (
        f"cannot read {len(broken):,} of {num_images:,} images of {container.root}: "
        f"{', '.join(named)}{more}"
    )
