"""Measure how a recipe scales with the number of ranks, and predict how it scales further."""

import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from remuda import data
from remuda.cluster import doctor, launch
from remuda.cluster.doctor import probe
from remuda.config import RunConfig
from remuda.errors import UserError
from remuda.experiments.scaling import plan
from remuda.experiments.scaling.figure import draw
from remuda.experiments.scaling.measure import measure
from remuda.experiments.scaling.model import Link
from remuda.experiments.scaling.plan import read_ranks
from remuda.experiments.scaling.result import Scaling
from remuda.strategies.facts import Averaging
from remuda.system.pytorch import own_random_state
from remuda.system.text import Notify, ignore

# How often members could average shared tensors: after every k generator updates.
OFTEN = {"never": 0, "every update": 1, "every 10 updates": 10}

__all__ = ["Scaling", "draw", "read_ranks", "scale"]


def scale(
    name: str,
    config: RunConfig,
    out: Path,
    ranks: Sequence[int],
    weak: bool = False,
    repeats: int = 3,
    rounds: int = 5,
    notify: Notify = ignore,
    link: str = "",
) -> Scaling:
    """Train on each number of ranks, and write scaling.json and scaling.png.

    Each run is a subprocess with a folder in ``out``. The two files are in ``out`` too. ``name`` is
    the title of the figure. With ``link``, such as 100mbit, predict rounds over such links.
    """
    other_link = Link.read(link) if link else None
    if launch.rank_from_environment().num_ranks > 1:
        raise UserError("remuda scaling starts its own ranks: run it without mpirun or srun")
    dataset = data.load(config.data.at(0, platform.node()))
    cases = plan.cases(config, ranks, weak, rounds, len(dataset.classes))
    measured, load = measure(cases, repeats, out, notify)
    found = measure_link(max(2, ranks[-1]))
    if other_link:
        other_link = replace(other_link, adding=found.adding)
    own, others = averagings_of(config, dataset)
    scaling = Scaling(name, weak, config, measured, found, load, other_link, own, others)
    scaling.write(out / "scaling.json")
    draw(scaling, out / "scaling.png")
    return scaling


def averagings_of(
    config: RunConfig, dataset: data.Dataset
) -> tuple[Averaging | None, dict[str, Averaging]]:
    """Return how much members average, and how much they could average, by how often."""
    strategy, num_classes = config.strategy, len(dataset.classes)
    with own_random_state():  # new layers draw weights that nobody uses
        context = strategy.prepare(config.networks, dataset.shape, num_classes, config.run.seed)
    found = {name: strategy.averaging(context, every) for name, every in OFTEN.items()}
    others = {name: averaging for name, averaging in found.items() if averaging}
    return strategy.averaging(context), others


def measure_link(ranks: int) -> Link:
    """Start this many ranks as a run does, and return the slowest measured link between them."""
    answer = doctor.trial(ranks)
    latency, exchange = (
        max(link[name] for link in answer["links"]) for name in ("latency", "exchange")
    )
    # A sum sends all numbers except a rank's own share, and the sums back.
    added = 2 * (ranks - 1) / ranks * probe.SUMMED_BYTES
    return Link(latency, probe.LARGE / exchange, added / answer["sum"])
