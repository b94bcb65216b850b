"""Speed-up or efficiency over the ranks, measured and foreseen, and where a round's time goes."""

from pathlib import Path
from typing import Any

from remuda.experiments.scaling.result import FORESEEN, PAPER, Scaling
from remuda.strategies import Cellular

COLOUR, PAPER_COLOUR = "#3f8fd8", "#c8622d"
NUM_POINTS = 40  # of the dashed line


def draw(scaling: Scaling, path: Path) -> None:
    from matplotlib.figure import Figure  # slow to import, and needed here alone

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _curve(left, scaling)
    _verbs(right, scaling)
    for axes in (left, right):
        axes.grid(alpha=0.3, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{scaling.name}, {scaling.kind} scaling")
    figure.savefig(path, format="png", dpi=150)


def _curve(axes: Any, scaling: Scaling) -> None:
    """Weak: efficiency, as the class-parallel papers draw it. Strong: speed-up, beside the cellular paper's."""
    first = scaling.measured[0]

    def height(seconds: float, ranks: int, alone: float) -> float:
        return scaling.efficiency(seconds, ranks, alone) * (1 if scaling.weak else ranks)

    ranks = [each.ranks for each in scaling.measured]
    last = max(FORESEEN[-1] if scaling.weak else first.members, 2)
    spread = sorted({round(last ** (i / (NUM_POINTS - 1))) for i in range(NUM_POINTS)})
    model = scaling.predictions(spread)
    axes.plot(
        spread,
        [1 if scaling.weak else number for number in spread],
        ":",
        color="grey",
        label="nothing lost",
    )
    heights = [height(each.seconds, each.ranks, first.median) for each in model]
    axes.plot(
        [each.ranks for each in model],
        heights,
        "--",
        color=COLOUR,
        label="prediction, not measured",
    )
    for shape, name in (("o", "median"), ("^", "best")):
        values = [
            height(getattr(each, name), each.ranks, getattr(first, name))
            for each in scaling.measured
        ]
        axes.plot(
            ranks,
            values,
            shape,
            color=COLOUR,
            label=f"measured, {name}",
            fillstyle="full" if shape == "o" else "none",
        )
    if isinstance(scaling.config.strategy, Cellular) and not scaling.weak:
        cores, speedups = zip(*PAPER.values(), strict=True)
        axes.plot(cores, speedups, "s", color=PAPER_COLOUR, label="cellular paper, table III")
    axes.set(xscale="log", xlabel="ranks", ylabel="efficiency" if scaling.weak else "speed-up")
    if scaling.weak:
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    else:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.legend(frameon=False, fontsize=9)


def _verbs(axes: Any, scaling: Scaling) -> None:
    """Of rank 0, one bar for each number of ranks."""
    places = range(len(scaling.measured))
    bottoms = [0.0] * len(scaling.measured)
    verbs = list(dict.fromkeys(verb for each in scaling.measured for verb in each.verbs))
    for verb in [*verbs, "rest"]:
        spent = [
            max(0.0, each.median - sum(each.verbs.values()))
            if verb == "rest"
            else each.verbs.get(verb, 0.0)
            for each in scaling.measured
        ]
        axes.bar(places, spent, bottom=bottoms, width=0.6, label=verb)
        bottoms = [bottom + seconds for bottom, seconds in zip(bottoms, spent, strict=True)]
    axes.set_xticks(places, [f"{each.ranks}" for each in scaling.measured])
    axes.set(
        xlabel="ranks", ylabel="seconds a round, rank 0", ylim=(0, 1.2 * max(bottoms))
    )  # room for the legend
    axes.legend(frameon=False, fontsize=9, ncols=len(verbs) + 1, loc="upper center")
