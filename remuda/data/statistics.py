"""How the pixels of a data set differ between its classes.

Lupo Pasini et al., "Scalable balanced training of conditional generative adversarial neural networks on image
data", 2021, judge by an analysis of variance how much the classes of a data set differ. Their formula is kept
here beside the textbook's.
"""

from dataclasses import dataclass

import numpy as np
import torch
from rich.columns import Columns
from rich.console import Console
from rich.table import Table
from rich.text import Text

from remuda.data.datasets import Dataset
from remuda.errors import UserError

_CHUNK = 256  # images that are turned into float64 at once
_LONG_LIST = 120  # classes that are printed at most


@dataclass(frozen=True)
class Moments:
    """The first two moments of each image's pixels, bytes on the scale [0, 1]."""

    means: np.ndarray  # (M, C)
    squares: np.ndarray  # (M, C) mean squares

    @property
    def mean(self) -> np.ndarray:
        """Per channel, over all pixels of all images."""
        return self.means.mean(axis=0)

    @property
    def variance(self) -> np.ndarray:
        """Per channel, over all pixels of all images, as a population's."""
        return self.squares.mean(axis=0) - self.mean**2


@dataclass(frozen=True)
class Anova:
    """The analysis of variance of one channel."""

    between: float  # sum of squares between the classes
    within: float  # residual sum of squares
    num_groups: int
    count: int

    @property
    def f(self) -> float:
        mean_between = self.between / (self.num_groups - 1)
        mean_within = self.within / (self.count - self.num_groups)
        return (
            mean_between / mean_within
            if mean_within
            else float("inf")
            if mean_between
            else float("nan")
        )

    @property
    def p(self) -> float:
        """The chance of an F as large where the classes do not differ."""
        from scipy.special import (
            fdtrc,
        )  # slow to import, as is scipy.stats, which has the F distribution too

        return float(fdtrc(self.num_groups - 1, self.count - self.num_groups, max(self.f, 0.0)))


def moments(dataset: Dataset) -> Moments:
    scale = 1.0 if dataset.images.is_floating_point() else 255.0
    means, squares = [], []
    for chunk in dataset.images.split(_CHUNK):
        pixels = chunk.to(torch.float64).flatten(start_dim=2) / scale
        means.append(pixels.mean(dim=2))
        squares.append(pixels.square().mean(dim=2))
    return Moments(torch.cat(means).numpy(), torch.cat(squares).numpy())


def paper_anova(dataset: Dataset) -> list[Anova]:
    """The paper's analysis, for each channel.

    SSb = var(class means) (g - 1) (n / g - 1), SSres = var(all pixels) (n - 1) - SSb. The paper's own figures
    come out when n is the number of *images*, though the second variance is taken over pixels, and when both
    variances divide by their count.
    """
    return _paper_anova(moments(dataset), _groups(dataset))


def oneway_anova(dataset: Dataset) -> list[Anova]:
    """The textbook's one-way analysis of the images' mean values, for each channel."""
    return _oneway_anova(moments(dataset), _groups(dataset))


def _paper_anova(values: Moments, groups: list[np.ndarray]) -> list[Anova]:
    count, num_groups = len(values.means), len(groups)
    class_means = np.array([values.means[group].mean(axis=0) for group in groups])
    between = class_means.var(axis=0) * (num_groups - 1) * (count / num_groups - 1)
    within = values.variance * (count - 1) - between
    return [
        Anova(float(b), float(w), num_groups, count) for b, w in zip(between, within, strict=True)
    ]


def _oneway_anova(values: Moments, groups: list[np.ndarray]) -> list[Anova]:
    between, within = np.zeros_like(values.mean), np.zeros_like(values.mean)
    for group in groups:
        means = values.means[group]
        between += len(group) * (means.mean(axis=0) - values.mean) ** 2
        within += ((means - means.mean(axis=0)) ** 2).sum(axis=0)
    count = len(values.means)
    return [
        Anova(float(b), float(w), len(groups), count) for b, w in zip(between, within, strict=True)
    ]


def _groups(dataset: Dataset) -> list[np.ndarray]:
    """The indices of each class that has images."""
    labels = dataset.labels.numpy()
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    if len(groups) < 2:
        raise UserError(
            f"an analysis of variance compares classes, but {dataset.name} has images of one class alone: "
            "take a data set with more classes"
        )
    if len(labels) <= len(groups):
        raise UserError(
            f"an analysis of variance needs more images than classes, but {dataset.name} has {len(labels)} "
            f"images of {len(groups)} classes: raise data.limit"
        )
    return groups


def print_summary(dataset: Dataset, console: Console, anova: bool) -> None:
    """What `remuda data` prints."""
    is_image = not dataset.images.is_floating_point()
    shape = " x ".join(map(str, dataset.shape))
    what = f"images of {shape}" if is_image else "points"
    values = moments(dataset)
    _print_line(
        console, f"{dataset.name}: {len(dataset.labels):,} {what} in {len(dataset.classes)} classes"
    )
    _print_classes(dataset, console)
    _print_line(console, "pixels in [0, 1]:" if is_image else "numbers as stored:")
    console.print(_channel_table(values))
    if anova:
        groups = _groups(dataset)
        _print_line(console, "analysis of variance over pixels, as in Lupo Pasini et al. 2021:")
        console.print(_anova_table(_paper_anova(values, groups)))
        _print_line(console, "one-way analysis of variance of the images' means:")
        console.print(_anova_table(_oneway_anova(values, groups)))


def _print_line(console: Console, text: str) -> None:
    # Names of folders and classes are the user's: brackets in them are no markup.
    console.print(text, markup=False, highlight=False)


def _print_classes(dataset: Dataset, console: Console) -> None:
    """Names and counts in as many columns as fit; a very long list is cut, and says so."""
    pairs = list(zip(dataset.classes, dataset.counts, strict=True))
    entries = [
        Text.assemble(name, " ", (f"{count:,}", "bold")) for name, count in pairs[:_LONG_LIST]
    ]
    console.print(Columns(entries, padding=(0, 3)))
    rest = [count for _, count in pairs[_LONG_LIST:]]
    if rest:
        each = f"{rest[0]:,}" if min(rest) == max(rest) else f"{min(rest):,} to {max(rest):,}"
        _print_line(console, f"and {len(rest)} more classes of {each} each")


def _channel_table(values: Moments) -> Table:
    table = Table("channel", "mean", "std")
    deviations = np.sqrt(np.maximum(values.variance, 0.0))
    for channel, (mean, std) in enumerate(zip(values.mean, deviations, strict=True)):
        table.add_row(str(channel), f"{mean:.4f}", f"{std:.4f}")
    return table


def _anova_table(channels: list[Anova]) -> Table:
    table = Table("channel", "F", "p", "between", "residual")
    for channel, result in enumerate(channels):
        p = "below 1e-300" if result.p < 1e-300 else f"{result.p:.3g}"
        table.add_row(
            str(channel), f"{result.f:.2f}", p, f"{result.between:.5g}", f"{result.within:.5g}"
        )
    return table
