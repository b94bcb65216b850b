"""Decode many images in parallel threads, in order, with little memory."""

import shlex
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np

from remuda.data.containers import Container
from remuda.data.decoding import Broken, Mismatch, Target, decode, shaped
from remuda.errors import UserError
from remuda.system.devices import usable_cores
from remuda.system.progress import tracked

TASK_SIZE = 64  # images that one task decodes
T = TypeVar("T")


class BrokenFile(NamedTuple):
    """A file that cannot be decoded."""

    place: int  # in the list of names
    name: str
    reason: str


class Part(NamedTuple):
    """Consecutive decoded images, without the broken ones."""

    images: np.ndarray  # (n, C, H, W) uint8
    broken: list[BrokenFile]


def decode_all(container: Container, names: list[str], target: Target) -> Iterator[Part]:
    """Yield all images in order. Raise a UserError if an image does not fit the others."""

    def decode_from(start: int) -> Part:
        chosen = names[start : start + TASK_SIZE]
        images = np.empty((len(chosen), *target.shape), dtype=np.uint8)
        filled, broken = 0, []
        for place, name in enumerate(chosen, start):
            try:
                images[filled] = shaped(decode(container.read(name)), name, target)
                filled += 1
            except Broken as error:
                broken.append(BrokenFile(place, name, str(error)))
            except Mismatch as error:
                command = f"remuda data {shlex.quote(target.config.name)}"
                remedy = f"{command} shows the sizes of all images"
                raise UserError(f"in {container.root}, {error} ({remedy})") from error
        return Part(images[:filled], broken)

    yield from in_parallel(decode_from, len(names), f"decoding {container.root.name}")


def in_parallel(task: Callable[[int], T], count: int, title: str) -> Iterator[T]:
    """Yield the results of a task for the images from 0, from 64, and so on, in order.

    Only a few results wait to be used, so the memory does not depend on the number of images.
    """
    num_threads = min(8, usable_cores())
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(num_threads) as pool, tracked(title, count, "images") as shown:
        try:
            for start in range(0, count, TASK_SIZE):
                waiting.append(pool.submit(task, start))
                if len(waiting) > 2 * num_threads:
                    yield waiting.popleft().result()
                    shown.advance(min(TASK_SIZE, count - shown.done))
            while waiting:
                yield waiting.popleft().result()
                shown.advance(min(TASK_SIZE, count - shown.done))
        finally:
            for future in waiting:
                future.cancel()
