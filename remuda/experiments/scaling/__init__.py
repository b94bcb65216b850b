"""Measure how a recipe scales with the number of ranks, and predict how it scales further."""

import platform
from collections.abc import Sequence
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
from remuda.system.text import Notify, ignore

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
    num_classes = len(data.load(config.data.at(0, platform.node())).classes)
    cases = plan.cases(config, ranks, weak, rounds, num_classes)
    measured, load = measure(cases, repeats, out, notify)
    found = measure_link(max(2, ranks[-1]))
    scaling = Scaling(name, weak, config, measured, found, load, other_link)
    scaling.write(out / "scaling.json")
    draw(scaling, out / "scaling.png")
    return scaling


def measure_link(ranks: int) -> Link:
    """Start this many ranks as a run does, and return the slowest measured link between them."""
    found = doctor.trial(ranks)["links"]
    latency, exchange = (max(link[name] for link in found) for name in ("latency", "exchange"))
    return Link(latency, probe.LARGE / exchange)
