"""Write samples of a trained herd to files."""

from pathlib import Path

import torch
from torch import Tensor

from remuda.errors import UserError
from remuda.model.model import Model
from remuda.model.pictures import save_grid, to_picture

COLUMNS = 8  # images per row of a grid
MAX_GRID_ROWS = 20  # labels shown in a run's sample grids


def write_samples(model: Model, n: int, label: str | None, target: Path, seed: int = 0) -> None:
    """Write n images as a grid FILE.png, or as separate files to a folder.

    ``label`` is one class. None draws classes according to their frequency, and "all" draws n
    images of each class, one row per class. A folder has one sub-folder per label and can serve as
    the data set ``folder:PATH``.
    """
    columns = COLUMNS
    if label == "all":
        numbers = range(max(1, model.num_labels))
        labels = torch.cat([model.choose_labels(n, number, seed) for number in numbers])
        columns = n
    else:
        labels = model.choose_labels(n, label, seed)
    images = model.generate(labels, seed)
    if target.suffix.lower() == ".png":
        target.parent.mkdir(parents=True, exist_ok=True)
        save_grid(images, min(columns, len(images)), target)
    elif target.suffix:
        raise UserError(
            f"--out {target} is neither a grid nor a folder: use a name that ends in .png for a "
            "grid, or a name without an extension for a folder of images"
        )
    elif model.facts.is_points:
        raise UserError(
            f"--out {target}: points cannot be written as a folder of images; use --out FILE.png"
        )
    else:
        _write_folder(model, images, labels, target)


def _write_folder(model: Model, images: Tensor, labels: Tensor, target: Path) -> None:
    names = model.facts.classes if model.num_labels else ["samples"]
    for i, (image, number) in enumerate(zip(images, labels.tolist(), strict=True)):
        folder = target / names[number].replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        to_picture(image).save(folder / f"{i:06d}.png")


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


def write_grid(model: Model, path: Path) -> None:
    """Write the images of ``draw_grid`` to a PNG file."""
    save_grid(*draw_grid(model), path)
