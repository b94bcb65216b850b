"""Measure the FID of MD-GAN on MNIST if some workers lie, or if their data are uneven.

    python benchmarks/liars.py [--liars 0 1 3 4] [--lies sign scaled noise collude constant labels]
                               [--aggregates mean median ...] [--seeds 0] [--rounds 25]
    python benchmarks/liars.py --partitions dirichlet class --forgive none f2u f2a

Both commands accept --recipe NAME (md-gan-mnist-cnn for the CNN), --members 10, --processes 2,
--device cpu, --n 10000 (images for the FID), --keep FOLDER and --set KEY=VALUE. All workers give
feedback on the same batch (k = 1). A round of the recipes for MNIST has 200 iterations.

The script trains all runs, several at a time, with one thread each. It prints a line per run, then
a table in Markdown: a row per attack or partition, a column per rule by which the server combines
feedback, and in each cell the FID with the recipe's protocol after the last round (mean and range
over the seeds). A run that diverges has no FID. Runs in --keep that already exist are resumed. Krum
withstands at most three liars of ten.
"""

import argparse
from itertools import product

from grids import Case, add_options, cells_of, measure_all, table

AGGREGATES = [
    "mean",
    "median",
    "trimmed-mean",
    "krum",
    "geometric-median",
    "norm-clipped",
    "reputation",
]
LIES = ["sign", "scaled", "noise", "collude", "constant", "labels"]
SETTINGS = {"strategy.num_fake_batches": 1}


def attacks(options: argparse.Namespace) -> dict[str, dict[str, object]]:
    """Return the rows of the table of lies, with their settings."""
    rows: dict[str, dict[str, object]] = {}
    for number in options.liars:
        if number == 0:
            rows["0 liars"] = {}
            continue
        for lie in options.lies:
            name = f"{number} {'liar' if number == 1 else 'liars'}, {lie}"
            rows[name] = {"strategy.liars": number, "strategy.lie": lie}
    return rows


def cases(options: argparse.Namespace) -> list[Case]:
    """Return all runs."""
    if options.partitions:
        rows = {
            name: {"data.partition": name, "data.alpha": options.alpha}
            if name == "dirichlet"
            else {"data.partition": name}
            for name in options.partitions
        }
        columns = {name: {"strategy.forgive": name} for name in options.forgive}
    else:
        rows = attacks(options)
        columns = {name: {"strategy.aggregate": name} for name in options.aggregates}
    return [
        Case(row, column, seed, SETTINGS | rows[row] | columns[column])
        for seed, row, column in product(options.seeds, rows, columns)
    ]


def main() -> None:
    """Measure all cases, several at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--liars", type=int, nargs="+", default=[0, 1, 3, 4])
    parser.add_argument("--lies", nargs="+", default=LIES, choices=LIES)
    parser.add_argument("--aggregates", nargs="+", default=AGGREGATES, choices=AGGREGATES)
    parser.add_argument("--partitions", nargs="+", default=[], metavar="PARTITION")
    parser.add_argument("--alpha", type=float, default=0.1, help="data.alpha for dirichlet")
    parser.add_argument("--forgive", nargs="+", default=["none", "f2u", "f2a"])
    add_options(parser, recipe="md-gan-mnist-mlp", rounds=25)
    options = parser.parse_args()
    runs = cases(options)
    print(table(cells_of(runs, measure_all(options, runs))))


if __name__ == "__main__":
    main()
