"""Survey the images of a folder or an archive: shapes, kinds and broken files.

A survey needs no settings, so it helps to choose data.size and data.channels.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from rich.console import Console
from rich.table import Table

from remuda.data.config import DataConfig
from remuda.data.containers import open_container
from remuda.data.decoding import NUM_CHANNELS, Broken, decode, strictly
from remuda.data.layouts import list_images
from remuda.data.pool import TASK_SIZE, BrokenFile, in_parallel
from remuda.system import look
from remuda.system.text import count

_SIZES = 64, 128, 256  # usual choices of data.size, after 32
_NUM_SHAPES = 6  # rows of the table of shapes
_NUM_NAMED = 10  # broken files to name
_KINDS = {1: "grey", 2: "grey with alpha", 3: "RGB", 4: "RGBA"}


@dataclass(frozen=True)
class Survey:
    """What the images of one split are like; broken images count only as broken."""

    shapes: Counter[tuple[int, int]] = field(default_factory=Counter)  # (height, width)
    kinds: Counter[int] = field(default_factory=Counter)  # by the number of channels
    broken: list[BrokenFile] = field(default_factory=list)
    num_bytes: int = 0  # of all files
    num_classes: int = 0

    def can_load(self, config: DataConfig) -> bool:
        """Return whether the images get one shape with these settings."""
        has_size = config.sides is not None or len(self.shapes) == 1
        return bool(self.shapes) and has_size and (config.channels > 0 or len(self.kinds) == 1)

    def suggested_size(self) -> str:
        """Return a value for data.size: no side is enlarged for nine of ten images."""
        shorter = Counter[int]()
        for shape, number in self.shapes.items():
            shorter[min(shape)] += number
        tenth = _quantile(shorter, 0.1)
        return str(max([32, *(size for size in _SIZES if size <= tenth)]))


def survey(config: DataConfig) -> Survey:
    """Decode all training images, without resizing, and describe them."""
    container = open_container(config.images_path)
    listing = list_images(container, "train")
    names = listing.names

    def look(start: int) -> Survey:
        found = Survey()
        size = 0
        for place, name in enumerate(names[start : start + TASK_SIZE], start):
            try:
                content = container.read(name)
                size += len(content)
                image = decode(content)
            except Broken as error:
                found.broken.append(BrokenFile(place, name, str(error)))
                continue
            found.shapes[image.height, image.width] += 1
            found.kinds[NUM_CHANNELS[image.mode]] += 1
        return replace(found, num_bytes=size)

    total = Survey()
    size = 0
    with strictly():
        for part in in_parallel(look, len(names), f"reading {container.root.name}"):
            total.shapes.update(part.shapes)
            total.kinds.update(part.kinds)
            total.broken.extend(part.broken)
            size += part.num_bytes
    return replace(total, num_bytes=size, num_classes=len(listing.classes))


def print_survey(found: Survey, config: DataConfig, console: Console) -> None:
    """Print a survey, as `remuda data folder:PATH` does."""

    def say(text: str) -> None:
        look.say(console, text)

    readable = found.shapes.total()
    classes = "1 class" if found.num_classes == 1 else f"{found.num_classes:,} classes"
    size = f"{found.num_bytes / 1e6:,.1f} MB"
    say(f"{config.name}: {readable:,} images in {classes}, {size}")
    kinds = [f"{number:,} {_KINDS[channels]}" for channels, number in found.kinds.most_common()]
    say(f"kinds: {', '.join(kinds) or 'none'}")
    if readable:
        for axis, name in enumerate(("height", "width")):
            sides = Counter[int]()
            for shape, number in found.shapes.items():
                sides[shape[axis]] += number
            low, middle, high = min(sides), _quantile(sides, 0.5), max(sides)
            say(f"{name}: {low} to {high} pixels, median {middle}")
        console.print(_table(found))
    say(f"broken: {count(len(found.broken), 'file')}")
    for one in found.broken[:_NUM_NAMED]:
        say(f"  {one.name}: {one.reason}")
    if len(found.broken) > _NUM_NAMED:
        say(f"  and {len(found.broken) - _NUM_NAMED:,} more")
    if len(found.shapes) > 1 and not config.sides:
        say(f"images differ in size: train with --set data.size={found.suggested_size()}")
    if len(found.kinds) > 1 and not config.channels:
        say("images differ in kind: train with --set data.channels=3 (RGB) or 1 (grey)")
    if readable and found.broken and not config.skip_broken:
        say("train without the broken files with --skip-broken")


def _table(found: Survey) -> Table:
    table = look.table("height x width", "images", right=True)
    for (height, width), number in found.shapes.most_common(_NUM_SHAPES):
        table.add_row(f"{height} x {width}", f"{number:,}")
    rest = len(found.shapes) - _NUM_SHAPES
    if rest > 0:
        others = found.shapes.total() - sum(n for _, n in found.shapes.most_common(_NUM_SHAPES))
        table.add_row(f"{rest:,} other shapes", f"{others:,}")
    return table


def _quantile(values: Counter[int], part: float) -> int:
    """Return the smallest value that at least this part of all values does not exceed."""
    seen = 0
    for value in sorted(values):
        seen += values[value]
        if seen >= part * values.total():
            return value
    raise AssertionError("there are no values")
