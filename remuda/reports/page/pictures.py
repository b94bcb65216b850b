"""Embed sample grids as images in the page."""

import base64
import io
import struct
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image

from remuda.reports.tail import stamp_of

PNG = b"\x89PNG\r\n\x1a\n"  # the first bytes of every PNG file
T = TypeVar("T")


class Embedded:
    """Turn pictures into data URIs, for a page that needs no other file.

    All pictures of one kind may weigh ``budget`` bytes together. A picture that is larger than its
    share is compressed with losses.
    """

    limit = 40  # pictures of each kind

    def __init__(self, budget: int = 2_000_000):
        self.share = budget // self.limit  # bytes per picture

    def __call__(self, path: Path) -> dict[str, Any] | None:
        """Return a picture as ``src``, ``width`` and ``height``; None if it is damaged."""
        try:
            found = _embed(path, stamp_of(path), self.share)
        except (OSError, SyntaxError, ValueError):  # Pillow's errors for damaged files
            return None
        return dict(found)


@lru_cache(maxsize=128)  # a run writes its page again and again
def _embed(path: Path, stamp: object, limit: int) -> dict[str, Any]:
    content = path.read_bytes()
    with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
        image.load()
        width, height = image.size
        if len(content) > limit:
            content = _shrunk(image, limit)
    text = base64.b64encode(content).decode("ascii")
    kind = "png" if content.startswith(PNG) else "webp"
    return {"src": f"data:image/{kind};base64,{text}", "width": width, "height": height}


def _shrunk(image: Image.Image, limit: int) -> bytes:
    """Compress a picture to about ``limit`` bytes: lossy, then also with fewer pixels."""
    for quality, scale in ((85, 1), (60, 1), (70, 2), (60, 4), (40, 8)):
        small = image.reduce(scale) if scale > 1 else image
        buffer = io.BytesIO()
        small.convert("RGB").save(buffer, format="WEBP", quality=quality, method=2)
        if buffer.tell() <= limit:
            break
    return buffer.getvalue()


def png_size(path: Path) -> tuple[int, int] | None:
    """Return width and height of a PNG file from its first bytes; None if it is damaged."""
    try:
        if not path.is_file():  # a pipe would block
            return None
        with path.open("rb") as file:
            head = file.read(24)
    except OSError:
        return None
    if len(head) < 24 or not head.startswith(PNG):
        return None
    width, height = struct.unpack(">II", head[16:])
    return width, height


def evenly(items: Sequence[T], count: int) -> list[T]:
    """Return at most ``count`` >= 2 evenly spaced items, including the first and the last."""
    if len(items) <= count:
        return list(items)
    return [items[i * (len(items) - 1) // (count - 1)] for i in range(count)]
