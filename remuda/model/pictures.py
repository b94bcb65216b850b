"""Draw samples: a grid of images, a scatter plot of points, or an animation of either."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from remuda.errors import UserError
from remuda.model.captions import captioned
from remuda.system import disk
from remuda.system.text import count

MARGIN = 3  # pixels between images
SMALLEST = 32  # pixels; images with a smaller side are enlarged to about this size
LIMIT = 1.1  # largest coordinate in a plot of points
PLOT = 128  # pixels per side of a small plot of points
ANIMATIONS = {".gif": "GIF", ".webp": "WEBP", ".apng": "PNG"}  # Pillow's formats
FRAME_TIME, END_TIME = 100, 600  # milliseconds per frame; the first and last frames stay longer


def to_picture(image: Tensor) -> Image.Image:
    """Convert one image (C, H, W) uint8; average the channels unless they are 1, 3 or 4."""
    pixels = image.numpy()
    if pixels.shape[0] not in (1, 3, 4):
        pixels = pixels.mean(0, keepdims=True).round().astype(np.uint8)
    pixels = pixels.transpose(1, 2, 0)
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def save_grid(
    images: Tensor, columns: int, path: Path | str, names: Sequence[str] | None = None
) -> None:
    """Draw images (n, C, H, W) uint8 row by row; draw points (n, 2, 1, 1) as a scatter plot.

    ``names`` holds one name per row, for instance of its class, to write next to the images. Long
    names are shortened.
    """
    path = Path(path)
    if Image.registered_extensions().get(path.suffix.lower(), "PNG") != "PNG":
        raise UserError(f"cannot write {path}: pictures are PNG files, so let its name end in .png")
    _save(draw(images, columns, names), path, "PNG")


def save_animation(pictures: Sequence[Image.Image], path: Path) -> None:
    """Write pictures as an animation that repeats; the suffix of the path is in ``ANIMATIONS``."""
    form = ANIMATIONS[path.suffix.lower()]
    Image.init()
    if form not in Image.SAVE_ALL:
        raise UserError(
            f"cannot write {path}: this installation of Pillow does not support animated {form} "
            "files; use a name that ends in .gif"
        )
    times = [END_TIME, *[FRAME_TIME] * (len(pictures) - 2), END_TIME]
    first, *others = pictures
    settings = {"lossless": True} if form == "WEBP" else {}
    _save(
        first,
        path,
        form,
        save_all=True,
        append_images=others,
        duration=times,
        loop=0,  # forever
        **settings,
    )


def draw(images: Tensor, columns: int, names: Sequence[str] | None = None) -> Image.Image:
    """Return images (n, C, H, W) uint8 as a grid, points (n, 2, 1, 1) as a scatter plot.

    ``names`` are written next to the rows of a grid.
    """
    if images.ndim != 4 or not len(images):
        raise UserError(
            f"cannot draw a tensor of shape {tuple(images.shape)}: pass at least one image, as a "
            "tensor (n, C, H, W)"
        )
    if columns < 1:
        raise UserError(f"cannot draw a grid with {columns} columns: use 1 or more")
    if images.is_floating_point():
        return _scatter(images)
    grid = _grid(images, columns)
    if names is None:
        return grid
    num_rows = -(-len(images) // columns)
    if len(names) != num_rows:
        raise UserError(
            f"got {count(len(names), 'name')} for {count(num_rows, 'row')} of images: pass one "
            "name per row"
        )
    row_height = grid.height // num_rows
    return captioned(grid, names, min(max(row_height // 3, 11), 14))


def _grid(images: Tensor, columns: int) -> Image.Image:
    first = to_picture(images[0])
    scale = max(1, SMALLEST // first.height)
    width, height = first.width * scale + MARGIN, first.height * scale + MARGIN
    rows = -(-len(images) // columns)
    white = 255 if first.mode == "L" else (255,) * len(first.getbands())
    grid = Image.new(first.mode, (columns * width + MARGIN, rows * height + MARGIN), white)
    size = (width - MARGIN, height - MARGIN)
    for i, image in enumerate(images):
        picture = to_picture(image).resize(size, Image.Resampling.NEAREST)
        grid.paste(picture, (i % columns * width + MARGIN, i // columns * height + MARGIN))
    return grid


def _scatter(points: Tensor) -> Image.Image:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import, rarely needed
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 4), dpi=100, layout="constrained")
    limits = -LIMIT, LIMIT
    axes = figure.add_subplot(xlim=limits, ylim=limits, aspect="equal")
    x, y = points.flatten(1).T.numpy()
    axes.plot(x, y, ".", markersize=3, alpha=0.5)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")


def plot_points(points: Tensor) -> Tensor:
    """Return small scatter plots (m, 1, S, S) uint8 of m sets of points (m, n, 2, 1, 1)."""
    plots = torch.full((len(points), 1, PLOT, PLOT), 255, dtype=torch.uint8)
    plots[..., [0, -1], :] = plots[..., [0, -1]] = 200  # a grey frame
    x, y = (points.flatten(2) / LIMIT).unbind(2)
    columns, rows = (((each + 1) / 2 * PLOT).long().clamp(0, PLOT - 1) for each in (x, -y))
    plots[torch.arange(len(points))[:, None], 0, rows, columns] = 0
    return plots


def _save(picture: Image.Image, path: Path, form: str, **settings: Any) -> None:
    content = io.BytesIO()
    picture.save(content, format=form, **settings)
    disk.write_bytes(path, content.getvalue())
