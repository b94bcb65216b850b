"""Samples of a trained herd as files."""

from pathlib import Path

import torch

from remuda.errors import UserError
from remuda.model.model import Model
from remuda.model.pictures import save_grid, to_picture

COLUMNS = 8
MAX_GRID_ROWS = 20  # labels shown in a run's sample grids


def write_samples(model: Model, n: int, label: str | None, target: Path, seed: int = 0) -> None:
    """n images of a class, of all by their frequencies, or of "all" one row each; a grid FILE.png or a folder of files.

    A folder gets one sub-folder per label, which ``folder:PATH`` reads again.
    """
    columns = COLUMNS
    if label == "all":
        labels = torch.cat(
            [model.choose_labels(n, number, seed) for number in range(max(1, model.num_labels))]
        )
        columns = n
    else:
        labels = model.choose_labels(n, label, seed)
    images = model.generate(labels, seed)
    if target.suffix.lower() == ".png":
        target.parent.mkdir(parents=True, exist_ok=True)
        save_grid(images, min(columns, len(images)), target)
    elif target.suffix:
        raise UserError(f"--out {target}: samples are written as FILE.png or into a folder")
    elif model.facts.is_points:
        raise UserError(
            f"--out {target}: points are drawn as one FILE.png, not as a folder of images"
        )
    else:
        names = model.facts.classes if model.num_labels else ["samples"]
        for i, (image, number) in enumerate(zip(images, labels.tolist(), strict=True)):
            folder = target / names[number].replace("/", "-")
            folder.mkdir(parents=True, exist_ok=True)
            to_picture(image).save(folder / f"{i:06d}.png")


def write_grid(model: Model, path: Path) -> None:
    """A grid from noise that is the same in every round: a row per label, or eight by eight without labels."""
    num_rows = min(model.num_labels, MAX_GRID_ROWS)
    columns = 10 if num_rows else COLUMNS
    if model.facts.is_points:
        labels = model.draw_labels(1000)
    elif num_rows:
        labels = torch.arange(num_rows).repeat_interleave(columns)
    else:
        labels = torch.zeros(columns * columns, dtype=torch.int64)
    save_grid(model.generate(labels, seed=0), columns, path)
