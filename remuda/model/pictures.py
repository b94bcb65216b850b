"""Draw samples: a grid of images, or a scatter plot of points."""

from pathlib import Path

import numpy as np
from PIL import Image
from torch import Tensor

MARGIN = 3  # pixels between images
SMALLEST = 32  # pixels; images with a smaller side are enlarged to about this size


def to_picture(image: Tensor) -> Image.Image:
    """Convert one image (C, H, W) uint8; average the channels unless they are 1, 3 or 4."""
    pixels = image.numpy()
    if pixels.shape[0] not in (1, 3, 4):
        pixels = pixels.mean(0, keepdims=True).round().astype(np.uint8)
    pixels = pixels.transpose(1, 2, 0)
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def save_grid(images: Tensor, columns: int, path: Path) -> None:
    """Draw images (n, C, H, W) uint8 row by row; draw points (n, 2, 1, 1) as a scatter plot."""
    if images.is_floating_point():
        save_scatter(images, path)
        return
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
    _save(grid, path)


def save_scatter(points: Tensor, path: Path) -> None:
    """Draw points (n, 2, 1, 1) as a scatter plot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import, rarely needed
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 4), dpi=100, layout="constrained")
    axes = figure.add_subplot(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal")
    x, y = points.flatten(1).T.numpy()
    axes.plot(x, y, ".", markersize=3, alpha=0.5)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    _save(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"), path)


def _save(picture: Image.Image, path: Path) -> None:
    """Write a PNG file atomically."""
    temporary = path.with_name(f".{path.name}.new")
    picture.save(temporary, format="png")
    temporary.replace(path)
