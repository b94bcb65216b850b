"""Collect the facts at the top of a page."""

import statistics

from remuda.record.endings import describe
from remuda.reports.page.run import Run
from remuda.system.text import duration

UNKNOWN = "not known yet"


def facts(run: Run) -> list[tuple[str, str]]:
    """Return the names and values of the facts in the order of the page."""
    end = [("ended early", run.ending.why)] if run.ending is not None else []
    best = [("best checkpoint", describe(run.best))] if run.best is not None else []
    return [
        ("strategy", run.strategy),
        ("data", _data(run)),
        ("members", _members(run)),
        ("rounds", f"{run.reached:,} of {run.planned:,}"),
        *end,
        *best,
        ("images seen", f"{run.rounds.last.get('images', 0):,}"),
        ("time trained", duration(run.rounds.seconds)),
        ("images/s, median", _speed(run)),
        ("device", _device(run)),
        *((name, entry.place) for name, entry in run.trackers.items()),
    ]


def _members(run: Run) -> str:
    lost = len(run.section("run").get("lost", []))
    if lost:  # run.members or strategy.discriminators counts the remaining members
        discriminators = run.section("strategy").get("discriminators", 0)
        remaining = discriminators or run.setting("run", "members")
        return f"{remaining + lost:,}, {lost:,} of them lost"
    return f"{run.num_members:,}" if run.num_members else UNKNOWN


def _data(run: Run) -> str:
    if run.data is None:
        return str(run.setting("data", "name"))
    parts = [run.data.name]
    if run.data.counts:
        parts.append(f"{sum(run.data.counts):,} {'points' if run.is_points else 'images'}")
    if not run.is_points:
        parts.append(" x ".join(map(str, run.data.shape)))
    return ", ".join(parts)


def _speed(run: Run) -> str:
    speeds = run.rounds.curves.axis("speed")
    known = [speed for speed in speeds if speed is not None]
    return f"{statistics.median(known):,.0f}" if known else UNKNOWN


def _device(run: Run) -> str:
    return str(run.environments[-1].get("device", UNKNOWN)) if run.environments else UNKNOWN
