"""Draw speed-up or efficiency over the number of ranks, and the time that each verb takes."""

from pathlib import Path
from typing import Any

from remuda.experiments.scaling.result import PREDICTED_RANKS, Scaling

COLOUR, PAPER_COLOUR = "#3f8fd8", "#c8622d"
NUM_POINTS = 40  # points on the dashed line


def draw(scaling: Scaling, path: Path) -> None:
    """Draw the two diagrams side by side and save them as a PNG file."""
    from matplotlib.figure import Figure  # slow to import, and used only here

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_curves(left, scaling)
    _draw_verbs(right, scaling)
    for axes in (left, right):
        axes.grid(alpha=0.3, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{scaling.name}, {scaling.kind} scaling")
    figure.savefig(path, format="png", dpi=150)


def _draw_curves(axes: Any, scaling: Scaling) -> None:
    """Draw speed-up or, for weak scaling, efficiency, as the class-parallel papers do."""
    _draw_model(axes, scaling)
    _draw_measured(axes, scaling)
    paper = scaling.config.strategy.paper_speedups
    if paper and not scaling.weak:
        cores, speedups = zip(*paper.values(), strict=True)
        axes.plot(cores, speedups, "s", color=PAPER_COLOUR, label="cellular paper, table III")
    axes.set(xscale="log", xlabel="ranks", ylabel="efficiency" if scaling.weak else "speed-up")
    if scaling.weak:
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    else:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.legend(frameon=False, fontsize=9)


def _draw_model(axes: Any, scaling: Scaling) -> None:
    """Draw a dotted line for ideal scaling and a dashed line for the prediction."""
    first = scaling.measured[0]
    last = max(PREDICTED_RANKS[-1] if scaling.weak else first.members, 2)
    ranks = sorted({round(last ** (i / (NUM_POINTS - 1))) for i in range(NUM_POINTS)})
    ideal = [1] * len(ranks) if scaling.weak else ranks
    axes.plot(ranks, ideal, ":", color="grey", label="ideal")
    predictions = scaling.predictions(ranks)
    axes.plot(
        [each.ranks for each in predictions],
        [_height(scaling, each.seconds, each.ranks, first.median) for each in predictions],
        "--",
        color=COLOUR,
        label="prediction, not measured",
    )


def _draw_measured(axes: Any, scaling: Scaling) -> None:
    """Draw a filled circle for each median and an empty triangle for each best round."""
    first = scaling.measured[0]
    ranks = [each.ranks for each in scaling.measured]
    for name, marker, fill in (("median", "o", "full"), ("best", "^", "none")):
        heights = [
            _height(scaling, getattr(each, name), each.ranks, getattr(first, name))
            for each in scaling.measured
        ]
        label = f"measured, {name}"
        axes.plot(ranks, heights, marker, color=COLOUR, label=label, fillstyle=fill)


def _height(scaling: Scaling, seconds: float, ranks: int, one_rank: float) -> float:
    """Return efficiency for weak scaling and speed-up for strong scaling."""
    efficiency = scaling.efficiency(seconds, ranks, one_rank)
    return efficiency if scaling.weak else efficiency * ranks


def _draw_verbs(axes: Any, scaling: Scaling) -> None:
    """Draw a stacked bar for each number of ranks: the seconds that rank 0 spends in each verb."""
    places = range(len(scaling.measured))
    spent = {
        verb: [each.verbs.get(verb, 0.0) for each in scaling.measured] for verb in scaling.verbs()
    }
    spent["rest"] = [each.rest for each in scaling.measured]
    bottoms = [0.0] * len(places)
    for verb, seconds in spent.items():
        axes.bar(places, seconds, bottom=bottoms, width=0.6, label=verb)
        bottoms = [bottom + more for bottom, more in zip(bottoms, seconds, strict=True)]
    axes.set_xticks(places, [f"{each.ranks}" for each in scaling.measured])
    # Leave a fifth more height for the legend.
    axes.set(xlabel="ranks", ylabel="seconds per round, rank 0", ylim=(0, 1.2 * max(bottoms)))
    axes.legend(frameon=False, fontsize=9, ncols=len(spent), loc="upper center")
