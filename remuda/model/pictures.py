"""Pictures of samples: grids of images, or a scatter plot where the data are points."""

from pathlib import Path

import numpy as np
from PIL import Image
from torch import Tensor

MARGIN = 3  # pixels between images
SMALLEST = 32  # images are enlarged to about this many pixels a side, to be visible


def to_picture(image: Tensor) -> Image.Image:
    """One image (C, H, W) uint8; channel counts that no format has are shown as their mean."""
    pixels = image.numpy()
    if pixels.shape[0] not in (1, 3, 4):
        pixels = pixels.mean(0, keepdims=True).round().astype(np.uint8)
    pixels = pixels.transpose(1, 2, 0)
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def save_grid(images: Tensor, columns: int, path: Path) -> None:
    """Images (n, C, H, W) uint8, row by row; points (n, 2, 1, 1) float as a scatter plot."""
    if images.is_floating_point():
        return save_scatter(images, path)
    first = to_picture(images[0])
    scale = max(1, SMALLEST // first.height)
    width, height = first.width * scale + MARGIN, first.height * scale + MARGIN
    rows = -(-len(images) // columns)
    white = 255 if first.mode == "L" else (255,) * len(first.getbands())
    grid = Image.new(first.mode, (columns * width + MARGIN, rows * height + MARGIN), white)
    for i, image in enumerate(images):
        picture = to_picture(image).resize(
            (width - MARGIN, height - MARGIN), Image.Resampling.NEAREST
        )
        grid.paste(picture, (i % columns * width + MARGIN, i // columns * height + MARGIN))
    _save(grid, path)


def save_scatter(points: Tensor, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import, and seldom needed
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 4), dpi=100, layout="constrained")
    axes = figure.add_subplot(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal")
    x, y = points.flatten(1).T.numpy()
    axes.plot(x, y, ".", markersize=3, alpha=0.5)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    _save(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"), path)


def _save(picture: Image.Image, path: Path) -> None:
    """As PNG, there entirely or not at all."""
    temporary = path.with_name(f".{path.name}.new")
    picture.save(temporary, format="png")
    temporary.replace(path)
