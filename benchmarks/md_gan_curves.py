"""Draw MNIST score and FID over iterations, as in figures 3 and 5 of the MD-GAN paper.

    python benchmarks/md_gan_curves.py --out OUT.png RUN...

A RUN is a run folder of standalone, fl-gan or md-gan with scores of 500 samples. Its settings
determine its label, colour and line style. Grey vertical lines mark the iterations at which a run
loses members. Horizontal lines show the scores of real images.
"""

import argparse
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

from remuda.record import Reader

NAMES = {"standalone": "standalone", "fl-gan": "FL-GAN", "md-gan": "MD-GAN"}
COLOURS = {"standalone": "black", "fl-gan": "#d55e00", "md-gan": "#0072b2"}
CRASHES = "#d55e00"
NUM_SAMPLES = 500
LAST = 50_000  # iterations on the horizontal axis


class Curves:
    """The scores of one run over iterations, and how to draw them."""

    def __init__(self, folder: str):
        run = Reader.open(folder)
        strategy, first = run.settings["strategy"], run.rounds()[0]
        num_members = len(first["discriminator_loss"])
        per_round = first["images"] / (num_members * strategy["batch_size"])  # iterations
        self.lose_every = strategy.get("lose_every", 0) * per_round
        self.label, self.colour, self.style = appearance(strategy)
        self.values: dict[str, dict[float, float]] = {"fid": {}, "score": {}}
        self.real: dict[str, float | None] = {}
        for score in run.scores():
            if score.num_samples == NUM_SAMPLES:
                kind = "fid" if score.name.startswith("fid") else "score"
                self.values[kind][score.round * per_round] = score.value
                self.real[kind] = score.floor

    def draw(self, axes: Any, kind: str) -> None:
        """Add the curve of one kind of score to a diagram."""
        iterations = list(self.values[kind])
        values = list(self.values[kind].values())
        axes.plot(iterations, values, self.style, color=self.colour, label=self.label)
        if self.lose_every:
            for crash in range(1, round(iterations[-1] / self.lose_every)):
                axes.axvline(crash * self.lose_every, color="0.85", linewidth=0.8, zorder=0)


def appearance(strategy: dict[str, Any]) -> tuple[str, str, str]:
    """Return the label, colour and line style of a run."""
    name, colour = NAMES[strategy["name"]], COLOURS[strategy["name"]]
    if strategy.get("lose_every", 0):
        return f"{name}, crashes", CRASHES, "-"
    if strategy["name"] == "md-gan":
        is_one = strategy["num_fake_batches"] == 1
        return f"{name}, {'k = 1' if is_one else 'k = log N'}", colour, ":" if is_one else "-"
    batch = strategy["batch_size"]
    return f"{name}, b = {batch}", colour, ":" if batch < 100 else "-"


def main() -> None:
    """Read the runs and write the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    parser.add_argument("--out", required=True, help="the picture to write")
    options = parser.parse_args()
    curves = [Curves(folder) for folder in options.runs]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.9))
    for axes, kind in ((left, "score"), (right, "fid")):
        for curve in curves:
            curve.draw(axes, kind)
        axes.axhline(curves[0].real[kind], ls="--", color="0.5", zorder=0, label="real images")
        axes.set(xlabel="iterations", xlim=(0, LAST))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        axes.spines[["top", "right"]].set_visible(False)
    left.set_ylabel("MNIST score (higher is better)")
    right.set(ylabel="FID (lower is better)", yscale="log", yticks=[5, 10, 20, 50, 100])
    right.yaxis.set(major_formatter="{x:g}", minor_formatter="")
    figure.legend(*left.get_legend_handles_labels(), ncols=4, loc="upper center", frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.88))
    figure.savefig(options.out, dpi=100)


if __name__ == "__main__":
    main()
