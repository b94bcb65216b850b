"""The few figures at the head of a page."""

import statistics

from remuda.reports.page.reading import Run
from remuda.system.text import duration

UNKNOWN = "not known yet"


def facts(run: Run) -> list[tuple[str, str]]:
    """Name and value, in the order in which they are asked for."""
    return [
        ("strategy", run.strategy),
        ("data", _data(run)),
        ("members", _members(run)),
        ("rounds", f"{run.reached:,} of {run.setting('run', 'rounds'):,}"),
        ("images seen", f"{run.rounds.last.get('images', 0):,}"),
        ("time trained", duration(run.rounds.seconds)),
        (
            "images/s, median",
            f"{statistics.median(run.rounds.paces):,.0f}" if run.rounds.paces else UNKNOWN,
        ),
        ("device", str(run.environment[-1].get("device", UNKNOWN)) if run.environment else UNKNOWN),
    ]


def _members(run: Run) -> str:
    lost = len(run.config.get("run", {}).get("lost", []))
    text = f"{run.num_members:,}" if run.num_members else UNKNOWN
    return f"{text}, {lost:,} of them lost" if lost else text


def _data(run: Run) -> str:
    name = run.data.get("name") or run.setting("data", "name")
    counts, shape = run.data.get("counts"), run.data.get("shape")
    parts = [str(name)]
    if counts:
        parts.append(f"{sum(counts):,} {'points' if run.is_points else 'images'}")
    if shape and not run.is_points:
        parts.append(" x ".join(map(str, shape)))
    return ", ".join(parts)
