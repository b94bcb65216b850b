"""Embed sample grids as images in the page."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from PIL import Image

T = TypeVar("T")


@dataclass(frozen=True)
class Picture:
    """A PNG as a data URI, with its size in pixels."""

    uri: str
    width: int
    height: int


def load(path: Path, max_width: int) -> Picture | None:
    """Load a PNG and shrink it to at most ``max_width`` pixels; return None if it is damaged."""
    try:
        content = path.read_bytes()
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            image.load()
            if image.width > max_width:
                height = max(1, round(image.height * max_width / image.width))
                image = image.resize((max_width, height), Image.Resampling.LANCZOS)
                buffer = io.BytesIO()
                image.save(buffer, format="PNG")
                content = buffer.getvalue()
    except (OSError, SyntaxError, ValueError):  # Pillow's errors for damaged files
        return None
    text = base64.b64encode(content).decode("ascii")
    return Picture(f"data:image/png;base64,{text}", image.width, image.height)


def evenly(items: Sequence[T], count: int) -> list[T]:
    """Return at most ``count`` >= 2 evenly spaced items, including the first and the last."""
    if len(items) <= count:
        return list(items)
    return [items[i * (len(items) - 1) // (count - 1)] for i in range(count)]
