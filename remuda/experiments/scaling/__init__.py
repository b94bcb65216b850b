"""How a recipe scales over ranks: measured here, and foreseen for more."""

import platform
from collections.abc import Callable, Sequence
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

__all__ = ["Scaling", "draw", "read_ranks", "scale"]


def scale(
    name: str,
    config: RunConfig,
    out: Path,
    ranks: Sequence[int],
    weak: bool,
    repeats: int,
    rounds: int,
    say: Callable[[str], None],
) -> Scaling:
    """Train on each number of ranks, into folders of ``out``; writes scaling.json and scaling.png there, too."""
    if launch.place()[1] > 1:
        raise UserError("remuda scaling starts its ranks itself: call it without mpirun or srun")
    num_classes = len(data.load(config.data.at(0, platform.node())).classes)
    cases = plan.cases(config, ranks, weak, rounds, num_classes)
    measured, load = measure(cases, repeats, out, say)
    scaling = Scaling(name, weak, config, measured, link(max(2, ranks[-1])), load)
    scaling.write(out / "scaling.json")
    draw(scaling, out / "scaling.png")
    return scaling


def link(ranks: int) -> Link:
    """The slowest that so many ranks find among themselves, started as a run's are."""
    found = doctor.trial(ranks)["between"].values()
    latency, exchange = (max(place[name] for place in found) for name in ("latency", "exchange"))
    return Link(latency, probe.LARGE / exchange)
