"""Compute tables II to IV and figure 2 of the MD-GAN paper, without training and without data."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from remuda import recipes

if TYPE_CHECKING:
    from remuda.experiments.traffic import Setting

# Images of the training split, their shape and their classes.
DATA = {"mnist": (60_000, (1, 28, 28), 10), "cifar10": (50_000, (3, 32, 32), 10)}
RECIPES = {"mnist": "md-gan-mnist-mlp", "cifar10": "md-gan-cifar10-cnn"}
# Epochs of m/b iterations for every batch size, as in the paper.
EPOCHS = ("strategy.steps_per_round=0", "strategy.swap_every=1")
BATCH_SIZES = (10, 100)

# Table IV: FL-GAN with b = 10 and 100, MD-GAN with b = 10 and 100; MB, or counts; None for "-".
TABLE_4: dict[str, tuple[float | None, float | None, float, float]] = {
    "C → W (C)": (175, 175, 2.30, 23.0),
    "C → W (W)": (17.5, 17.5, 0.23, 2.30),
    "W → C (W)": (17.5, 17.5, 0.23, 2.30),
    "W → C (C)": (175, 175, 2.30, 23.0),
    "number of C ↔ W": (100, 1000, 50_000, 50_000),
    "W → W (W)": (None, None, 6.34, 6.34),
    "number of W ↔ W": (None, None, 100, 1000),
}
NUMBERS_4 = tuple(value for row in TABLE_4.values() for value in row if value is not None)
CROSSINGS = {"mnist": 550.0, "cifar10": 400.0}  # "less than around", read from figure 2

Sheet = tuple[list[str], list[list[str]]]


@cache
def setting(data: str) -> "Setting":
    """Return the setting of the paper's experiment: ten workers, b = 10, 50,000 iterations."""
    from remuda.experiments.traffic import setting_for

    num_images, shape, num_classes = DATA[data]
    config = recipes.recipe(RECIPES[data], *EPOCHS)
    found = setting_for(config, shape, num_classes, num_images)
    return replace(found, iterations=50_000)


def table_2() -> Sheet:
    """Return the formulas of table II, and their values for CIFAR-10."""
    from remuda.experiments.traffic import complexities

    rows = [
        [row.name, row.fl_formula, f"{row.fl_gan:.4g}", row.md_formula, f"{row.md_gan:.4g}"]
        for row in complexities(setting("cifar10"))
    ]
    return ["", "FL-GAN, paper", "FL-GAN, here", "MD-GAN, paper", "MD-GAN, here"], rows


def table_3() -> Sheet:
    """Return the formulas of table III, and the bytes that remuda sends for CIFAR-10."""
    from remuda.experiments.traffic import communications

    rows = [
        [
            row.name,
            row.fl_formula,
            _whole(row.fl_gan),
            row.printed,
            row.md_formula,
            _whole(row.md_gan),
        ]
        for row in communications(setting("cifar10"))
    ]
    header = ["", "FL-GAN, paper", "FL-GAN, here, bytes", "MD-GAN, paper", "MD-GAN, sent here"]
    return [*header, "MD-GAN, here, bytes"], rows


def table_4() -> Sheet:
    """Return table IV in MiB, which the paper calls MB, with the paper's values."""
    from remuda.experiments.traffic import communications
    from remuda.experiments.traffic.setting import MIB

    columns = [communications(replace(setting("cifar10"), batch_size=b)) for b in BATCH_SIZES]
    rows = []
    for lines in zip(*columns, strict=True):
        ours = [line.fl_gan for line in lines] + [line.md_gan for line in lines]
        row = [lines[0].name]
        for paper, value in zip(TABLE_4[lines[0].name], ours, strict=True):
            here = "-"
            if value is not None:
                here = f"{value:,}" if lines[0].counts else f"{value / MIB:.4g}"
            row += ["-" if paper is None else f"{paper:,}", here]
        rows.append(row)
    header = [""]
    for method in ("FL-GAN", "MD-GAN"):
        for b in BATCH_SIZES:
            header += [f"{method}, b = {b}, paper", f"{method}, b = {b}, here"]
    return header, rows


def crossings(data: str) -> Sheet:
    """Return the batch sizes above which MD-GAN needs more traffic than FL-GAN."""
    from remuda.experiments.traffic.figure import crossings as found

    swap, other, server = found(setting(data))
    paper = f"{CROSSINGS[data]:g}"
    rows = [
        ["worker, iteration with a swap", paper, f"{swap:,.0f}"],
        ["worker, other iterations", "", f"{other:,.0f}"],
        ["server", "", f"{server:,.0f}"],
    ]
    return ["lines cross at the batch size", "paper, about", "here"], rows


def draw(data: str, path: Path) -> None:
    """Draw figure 2 for one of its two GANs."""
    from remuda.experiments import traffic

    traffic.draw(setting(data), path)


def notes() -> list[str]:
    """Return the explanations of `remuda traffic`."""
    from remuda.experiments.traffic import describe
    from remuda.experiments.traffic.tables import notes

    found = setting("cifar10")
    return [f"Symbols: {describe(found)}.", "", " ".join(notes(found))]


def _whole(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
