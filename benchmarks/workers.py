"""Measure how the numbers of workers and discriminators change the FID of MD-GAN on MNIST.

    python benchmarks/workers.py [--workers 1 10 25 50] [--discriminators 0] [--swaps on off]
                                 [--iterations 2000] [--recipe md-gan-mnist-mlp-scaling]
                                 [--batch-size 10] [--seeds 0] [--processes 1] [--device cpu]
                                 [--n 10000] [--keep FOLDER] [--set KEY=VALUE]
    python benchmarks/workers.py --weights sizes equal distances [--partitions dirichlet class]

The first form trains MD-GAN, by default as in figure 4 of its paper, with a constant load on the
workers. 0 discriminators means one per worker. A round is one local epoch, after which the
discriminators are swapped. Numbers that remuda refuses are left out: more discriminators than
workers, and fewer without swaps. For the scale of section VII-4, use --workers 100 1000
--discriminators 10 30 0 --swaps on.

The second form trains FL-GAN with each of these strategy.weights on each partition, and with
data.alpha=0.1.

Each run has a process of its own. The script prints a Markdown table with the FID against the test
images after the last round, the median time of an iteration, and the peak memory: of the process on
a CPU, of the tensors on a GPU. Runs in --keep that already exist are resumed.
"""

import argparse
import json
import multiprocessing
import resource
import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

NUM_IMAGES = 60_000  # of MNIST
MD_GAN_TITLES = ("N", "M", "swaps", "seed")
FL_GAN_TITLES = ("partition", "weights", "seed")


class Case(NamedTuple):
    """One run: the first cells of its row, and its settings."""

    cells: tuple[str, ...]
    settings: dict[str, Any]


def md_gan_cases(options: argparse.Namespace) -> list[Case]:
    """Return all runs of MD-GAN that are possible and differ from each other."""
    found = {}
    grid = product(options.workers, options.discriminators, options.swaps, options.seeds)
    for workers, discriminators, swaps, seed in grid:
        size = discriminators or workers
        if size > workers or (size < workers and swaps == "off"):
            continue
        settings = {
            "run.members": workers,
            "strategy.discriminators": 0 if size == workers else size,
            "strategy.swap_every": int(swaps == "on"),
            "run.seed": seed,
            **length(options, workers),
        }
        cells = (f"{workers:,}", f"{size:,}", swaps, str(seed))
        found[cells] = Case(cells, settings)
    return list(found.values())


def fl_gan_cases(options: argparse.Namespace) -> list[Case]:
    """Return all runs of FL-GAN."""
    return [
        Case(
            (partition, weights, str(seed)),
            {
                "data.partition": partition,
                "data.alpha": 0.1,
                "strategy.weights": weights,
                "run.seed": seed,
                **length(options, 10),
            },
        )
        for partition, weights, seed in product(options.partitions, options.weights, options.seeds)
    ]


def length(options: argparse.Namespace, workers: int) -> dict[str, Any]:
    """Return the settings of rounds that last one pass over a worker's data."""
    steps = min(options.iterations, -(-NUM_IMAGES // (workers * options.batch_size)))
    return {
        "strategy.batch_size": options.batch_size,
        "strategy.steps_per_round": steps,
        "run.rounds": options.iterations // steps,
    }


def measure(options: argparse.Namespace, place: Path, case: Case) -> str:
    """Train and score one run, and return a row of the table."""
    import torch

    import remuda

    folder = place / "-".join(case.cells).replace(",", "")
    settings = {
        **case.settings,
        "run.sample_every": case.settings["run.rounds"],
        "scores.every": 0,
        "engine.device": options.device,
    }
    if options.device == "cpu":
        settings["engine.threads"] = 1
    changes = [f"{key}={value}" for key, value in settings.items()]
    if folder.exists():
        remuda.resume(folder)
    else:
        remuda.run(remuda.recipe(options.recipe, *changes, *options.set), folder)
    memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if options.device != "cpu":
        memory = torch.cuda.max_memory_allocated()
    lines = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    seconds = statistics.median(line["seconds"] for line in lines[1:] or lines)
    milliseconds = 1e3 * seconds / case.settings["strategy.steps_per_round"]
    (fid,) = remuda.score(folder, device=options.device, kinds="fid", samples=options.n)
    cells = (*case.cells, f"{fid.value:.1f}", f"{milliseconds:.1f}", f"{memory / 2**30:.2f}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure all cases, several at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 10, 25, 50])
    parser.add_argument("--discriminators", type=int, nargs="+", default=[0])
    parser.add_argument("--swaps", nargs="+", choices=["on", "off"], default=["on", "off"])
    parser.add_argument("--weights", nargs="+", default=[], help="train FL-GAN with these weights")
    parser.add_argument("--partitions", nargs="+", default=["dirichlet", "class"])
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--recipe", default="", help="default: of figure 4, or fl-gan-mnist-mlp")
    parser.add_argument("--batch-size", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--n", type=int, default=10_000, help="images for the FID")
    parser.add_argument("--keep", type=Path, help="a folder for the runs")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    if options.weights:
        titles, cases, recipe = FL_GAN_TITLES, fl_gan_cases(options), "fl-gan-mnist-mlp"
    else:
        titles, cases, recipe = MD_GAN_TITLES, md_gan_cases(options), "md-gan-mnist-mlp-scaling"
    options.recipe = options.recipe or recipe
    print(f"| {' | '.join((*titles, 'FID', 'ms per iteration', 'peak memory, GiB'))} |")
    print("|---" * (len(titles) + 3) + "|", flush=True)
    context = multiprocessing.get_context("spawn")  # a forked process cannot use the GPU
    with (
        tempfile.TemporaryDirectory() as place,
        ProcessPoolExecutor(options.processes, context, max_tasks_per_child=1) as pool,
    ):
        for row in pool.map(partial(measure, options, options.keep or Path(place)), cases):
            print(row, flush=True)


if __name__ == "__main__":
    main()
