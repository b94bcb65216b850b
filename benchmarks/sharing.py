"""Measure how FID depends on the layers that class-parallel pairs share, and how often.

    python benchmarks/sharing.py [--every 1 10 100] [--seeds 0 1 2] [--rounds 200]
                                 [--images 1000] [--out FIGURE] [--processes 2] [--device cpu]
                                 [--n 10000] [--keep FOLDER] [--set KEY=VALUE]

Ten pairs of perceptrons train on the first images of MNIST: 1,000 images are 100 per class. The FID
compares the samples with all 60,000 images, so pairs that memorise their few images have a high
FID. A round has 50 updates. The script trains all runs, several at a time, and prints a table in
Markdown: a row per choice of shared layers, a column per strategy.share_every (k), and in each cell
the FID after the last round (mean and range over the seeds). --out also draws the table.
"""

import argparse
from pathlib import Path

from grids import Case, add_options, cells_of, measure_all, table
from matplotlib.figure import Figure

NOTHING = "nothing"
GENERATOR = {"strategy.shared_generator": "[body, head]"}
DISCRIMINATOR = {"strategy.shared_discriminator": "[input, body]"}
SHARED = {
    "generator: body and head": GENERATOR,
    "discriminator: input and body": DISCRIMINATOR,
    "both": GENERATOR | DISCRIMINATOR,
}


def cases(options: argparse.Namespace) -> list[Case]:
    """Return all runs."""
    data = {"data.name": "mnist", "data.limit": options.images}
    found = []
    for seed in options.seeds:
        found.append(Case(NOTHING, f"k = {options.every[0]}", seed, data))
        found += [
            Case(row, f"k = {every}", seed, data | settings | {"strategy.share_every": every})
            for row, settings in SHARED.items()
            for every in options.every
        ]
    return found


def draw(cells: dict[str, dict[str, list]], path: Path) -> None:
    """Draw a line per choice of layers: FID over k, with the smallest and the largest value."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    colours = iter(("#0072b2", "#d55e00", "#009e73"))
    for row, found in cells.items():
        fids = [[fid for fid in fids if fid is not None] for fids in found.values()]
        if not all(fids):
            continue
        means = [sum(each) / len(each) for each in fids]
        if row == NOTHING:
            axes.axhline(means[0], color="black", linestyle=":", label=row)
            continue
        ends = [
            [mean - min(each) for mean, each in zip(means, fids, strict=True)],
            [max(each) - mean for mean, each in zip(means, fids, strict=True)],
        ]
        places = [int(column.split()[-1]) for column in found]
        axes.errorbar(places, means, ends, fmt="o-", color=next(colours), capsize=3, label=row)
    axes.set(xlabel="updates between two averages (k)", ylabel="FID", xscale="log")
    axes.legend(title="shared layers")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure all cases, print the table, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--out", type=Path, help="draw the table into this file")
    add_options(parser, recipe="class-parallel-digits", rounds=200)
    parser.set_defaults(seeds=[0, 1, 2])
    options = parser.parse_args()
    runs = cases(options)
    cells = cells_of(runs, measure_all(options, runs))
    print(table(cells))
    if options.out:
        draw(cells, options.out)


if __name__ == "__main__":
    main()
