"""Measure how the pixels of a data set differ between its classes.

Lupo Pasini et al., "Scalable balanced training of conditional generative adversarial neural
networks on image data", 2021, use an analysis of variance to measure how much the classes differ.
This module implements their formula and the textbook formula.
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
from remuda.system import look

_CHUNK = 256  # images converted to float64 at once
_MAX_CLASSES = 120  # the maximum number of classes to print


@dataclass(frozen=True)
class Moments:
    """The first two moments of each image's pixels; bytes are scaled to [0, 1]."""

    means: np.ndarray  # (M, C)
    squares: np.ndarray  # (M, C) mean squares

    @property
    def mean(self) -> np.ndarray:
        """Return the mean of each channel over all pixels of all images."""
        return self.means.mean(axis=0)

    @property
    def variance(self) -> np.ndarray:
        """Return the population variance of each channel over all pixels of all images."""
        return self.squares.mean(axis=0) - self.mean**2


@dataclass(frozen=True)
class Anova:
    """The analysis of variance of one channel."""

    between: float  # sum of squares between the classes
    within: float  # residual sum of squares
    num_groups: int  # classes
    count: int  # images

    @property
    def f(self) -> float:
        """Return the F statistic: infinite without variance within classes, nan without any."""
        mean_between = self.between / (self.num_groups - 1)
        mean_within = self.within / (self.count - self.num_groups)
        if mean_within:
            return mean_between / mean_within
        return float("inf") if mean_between else float("nan")

    @property
    def p(self) -> float:
        """Return the probability of an F this large if the classes do not differ."""
        # Import it here because it is slow. scipy.stats has this function too, but is slower.
        from scipy.special import fdtrc

        return float(fdtrc(self.num_groups - 1, self.count - self.num_groups, max(self.f, 0.0)))


def moments(dataset: Dataset) -> Moments:
    """Return the moments of all images of a data set."""
    scale = 1.0 if dataset.images.is_floating_point() else 255.0
    means, squares = [], []
    for chunk in dataset.images.split(_CHUNK):
        pixels = chunk.to(torch.float64).flatten(start_dim=2) / scale
        means.append(pixels.mean(dim=2))
        squares.append(pixels.square().mean(dim=2))
    return Moments(torch.cat(means).numpy(), torch.cat(squares).numpy())


def paper_anova(dataset: Dataset) -> list[Anova]:
    """Return the paper's analysis of variance, for each channel.

    SSb = var(class means) (g - 1) (n / g - 1), SSres = var(all pixels) (n - 1) - SSb. This
    reproduces the paper's figures under two conditions: n is the number of *images*, although the
    second variance is taken over pixels; and both variances divide by their count.
    """
    return _paper_anova(moments(dataset), _groups(dataset))


def oneway_anova(dataset: Dataset) -> list[Anova]:
    """Return the textbook one-way analysis of variance of the images' means, for each channel."""
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
    """Return the indices of each class that has images."""
    labels = dataset.labels.numpy()
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    if len(groups) < 2:
        raise UserError(
            f"an analysis of variance compares classes, but {dataset.name} has images of only one "
            "class: choose a data set with more classes"
        )
    if len(labels) <= len(groups):
        raise UserError(
            f"an analysis of variance needs more images than classes, but {dataset.name} has "
            f"{len(labels)} images of {len(groups)} classes: raise data.limit"
        )
    return groups


def print_summary(dataset: Dataset, console: Console, anova: bool) -> None:
    """Print a data set's size, classes and moments, as `remuda data` does.

    Args:
        dataset: the data set to describe.
        console: where to print.
        anova: whether to add two analyses of variance between the classes.
    """
    is_image = not dataset.images.is_floating_point()
    shape = " x ".join(map(str, dataset.shape))
    contents = f"images of {shape}" if is_image else "points"
    values = moments(dataset)
    size = f"{len(dataset.labels):,} {contents} in {len(dataset.classes)} classes"
    _print_line(console, f"{dataset.name}: {size}")
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
    look.say(console, text)


def _print_classes(dataset: Dataset, console: Console) -> None:
    """Print names and counts in as many columns as fit; shorten a very long list."""
    pairs = list(zip(dataset.classes, dataset.counts, strict=True))
    shown, hidden = pairs[:_MAX_CLASSES], pairs[_MAX_CLASSES:]
    lines = [(look.visible(" ".join(name.split())), count) for name, count in shown]
    entries = [Text.assemble(name, " ", (f"{count:,}", "bold")) for name, count in lines]
    console.print(Columns(entries, padding=(0, 3)))
    rest = [count for _, count in hidden]
    if rest:
        size = f"{rest[0]:,}" if min(rest) == max(rest) else f"{min(rest):,} to {max(rest):,}"
        _print_line(console, f"and {len(rest)} more classes of {size} each")


def _channel_table(values: Moments) -> Table:
    table = look.table("channel", "mean", "std", right=True)
    deviations = np.sqrt(np.maximum(values.variance, 0.0))
    for channel, (mean, std) in enumerate(zip(values.mean, deviations, strict=True)):
        table.add_row(str(channel), f"{mean:.4f}", f"{std:.4f}")
    return table


def _anova_table(channels: list[Anova]) -> Table:
    table = look.table("channel", "F", "p", "between", "residual", right=True)
    for channel, result in enumerate(channels):
        p = "below 1e-300" if result.p < 1e-300 else f"{result.p:.3g}"
        table.add_row(
            str(channel), f"{result.f:.2f}", p, f"{result.between:.5g}", f"{result.within:.5g}"
        )
    return table
