"""Write samples of a trained herd to files."""

from pathlib import Path

import torch
from torch import Tensor

from remuda.errors import UserError
from remuda.model.model import Model
from remuda.model.pictures import (
    ANIMATIONS,
    draw,
    plot_points,
    save_animation,
    save_grid,
    to_picture,
)
from remuda.system.text import Notify, ignore

COLUMNS = 8  # images per row of a grid
STRIP_FRAMES, ANIMATION_FRAMES = 8, 32  # of a walk
MAX_GRID_ROWS = 20  # labels shown in a run's sample grids
CELL_POINTS = 500  # points per cell in a run's pictures of cells


def write_samples(model: Model, n: int, label: str | None, target: Path, seed: int = 0) -> None:
    """Write n images as a grid FILE.png, or as separate files to a folder.

    ``label`` is one class. None draws classes according to their frequency, and "all" draws n
    images of each class, one row per class, with the names of the classes. A folder has one
    sub-folder per label and can serve as the data set ``folder:PATH``.
    """
    columns, names = COLUMNS, None
    if label == "all":
        numbers = range(max(1, model.num_labels))
        labels = torch.cat([model.choose_labels(n, number, seed) for number in numbers])
        columns, names = n, model.facts.classes[: model.num_labels]
    else:
        labels = model.choose_labels(n, label, seed)
    images = model.generate(labels, seed)
    if target.suffix.lower() == ".png":
        target.parent.mkdir(parents=True, exist_ok=True)
        save_grid(images, min(columns, len(images)), target, names or None)
    elif target.suffix:
        raise UserError(
            f"--out {target} is neither a grid nor a folder: use a name that ends in .png for a "
            "grid, or a name without an extension for a folder of images"
        )
    elif model.facts.is_points:
        raise _points_in_folder(target)
    else:
        _write_folder(model, images, labels, target)


def _points_in_folder(target: Path) -> UserError:
    return UserError(
        f"--out {target}: points cannot be written as a folder of images; use --out FILE.png"
    )


def _write_folder(model: Model, images: Tensor, labels: Tensor, target: Path) -> None:
    names = model.facts.classes if model.num_labels else ["samples"]
    for i, (image, number) in enumerate(zip(images, labels.tolist(), strict=True)):
        folder = target / names[number].replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        to_picture(image).save(folder / f"{i:06d}.png")


def write_walk(
    model: Model,
    start: str,
    end: str,
    target: Path,
    frames: int | None = None,
    rows: int = 1,
    seed: int = 0,
    notify: Notify = ignore,
) -> None:
    """Write the images of ``Model.walk`` as a grid FILE.png, an animation, or separate files.

    The frames of an animation show all rows. A folder has one sub-folder per row. By default, a
    grid has 8 frames; animations and folders have 32.
    """
    suffix = target.suffix.lower()
    if suffix and suffix != ".png" and suffix not in ANIMATIONS:
        raise UserError(
            f"--out {target} is neither a picture, an animation nor a folder: use a name that ends "
            f"in .png, {', '.join(ANIMATIONS)}, or a name without an extension for a folder"
        )
    if model.facts.is_points and not suffix:
        raise _points_in_folder(target)
    if frames is None:
        frames = STRIP_FRAMES if suffix == ".png" else ANIMATION_FRAMES
    images = model.walk(start, end, frames, rows, seed, notify)
    (target.parent if suffix else target).mkdir(parents=True, exist_ok=True)
    if suffix == ".png":
        save_grid(images.flatten(0, 1), frames, target)
    elif suffix:
        columns = min(rows, COLUMNS)
        save_animation([draw(frame, columns) for frame in images.unbind(1)], target)
    else:
        for i, row in enumerate(images):
            folder = target / f"row-{i:03d}"
            folder.mkdir(exist_ok=True)
            for j, image in enumerate(row):
                to_picture(image).save(folder / f"frame-{j:03d}.png")


def draw_grid(model: Model) -> tuple[Tensor, int]:
    """Draw one row of images per label, or 8 x 8 images; use the same noise in every round.

    Return the images and the number of columns.
    """
    num_rows = min(model.num_labels, MAX_GRID_ROWS)
    columns = 10 if num_rows else COLUMNS
    if model.facts.is_points:
        labels = model.draw_labels(1000)
    elif num_rows:
        labels = torch.arange(num_rows).repeat_interleave(columns)
    else:
        labels = torch.zeros(columns * columns, dtype=torch.int64)
    return model.generate(labels, seed=0), columns


def draw_cells(model: Model) -> tuple[Tensor, int]:
    """Draw one row of images per cell of the torus; use the same noise in every row and round.

    The columns of a conditional model show its classes in turn. The points of a cell become one
    image. Return the images and the number of columns.
    """
    if model.facts.is_points:
        points = model.generate_by_member(torch.zeros(CELL_POINTS, dtype=torch.int64), seed=0)
        return plot_points(points.unflatten(0, (-1, CELL_POINTS))), 1
    labels = torch.arange(COLUMNS) % max(1, model.num_labels)
    return model.generate_by_member(labels, seed=0), COLUMNS


def write_grid(model: Model, path: Path) -> None:
    """Write the images of ``draw_grid`` to a PNG file."""
    save_grid(*draw_grid(model), path)
