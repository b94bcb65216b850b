"""Build the parts of the payload that show members: pictures, cells, classes and workers."""

import math
from pathlib import Path
from typing import Any

from remuda.reports.page.members import member_name
from remuda.reports.page.pictures import evenly
from remuda.reports.page.run import Run, Source
from remuda.scores.directions import direction, worst

MAX_ROWS = 20  # of a sample grid: remuda.model.samples draws at most this many classes
MAX_PICTURES = 400  # more are chosen evenly; a source may allow fewer
COLLAPSED_BELOW = 0.5  # diversity, as in remuda.scores.classes.collapsed_classes


def members(run: Run) -> list[dict[str, Any]]:
    """Return id, name and fate of every member."""
    losses, width = run.rounds.members.losses(), run.grid[1] if run.grid else 0
    return [
        {"id": i, "name": member_name(run.noun, i, run.classes, width), "lost": losses.get(i)}
        for i in range(run.num_members)
    ]


def pictures(run: Run, source: Source) -> list[dict[str, Any]]:
    """Return the sample grids, oldest first, with the names of their rows."""
    rows = None
    if run.has_labels and not run.is_points and run.classes:
        count = run.num_members if run.is_by_class else len(run.classes)
        rows = [str(name) for name in run.classes[: min(count, MAX_ROWS)]]
    shown = _shown(run.grids, source)
    return [{**each, "rows": rows, "is_points": run.is_points} for each in shown]


def _shown(grids: list[tuple[int, Path]], source: Source) -> list[dict[str, Any]]:
    limit = getattr(source, "limit", MAX_PICTURES)
    return [
        {"round": t, "name": path.name, **(source(path) or {"src": None})}
        for t, path in evenly(grids, limit)
    ]


def torus(run: Run, source: Source, start: int) -> dict[str, Any] | None:
    """Return the grid of a cellular run; the values of its fields are in the curves."""
    if run.grid is None:
        return None
    curves = run.rounds.curves
    weights = curves.weights
    return {
        "height": run.grid[0],
        "width": run.grid[1],
        "fields": list(curves.by_member),
        "neighbours": run.rounds.neighbours,
        "slots": curves.num_slots,
        "weights": weights.encoded(start, curves.num_open > 0) if weights else None,
        "pictures": _shown(run.cell_grids, source),
    }


def classes(run: Run) -> list[dict[str, Any]] | None:
    """Return a row per class with its newest scores, and a mark if it has collapsed."""
    newest = {score.name: score.classes for score in run.scores if score.classes}
    if not (newest or (run.is_by_class and run.classes)):
        return None
    # A class-parallel run may train only the first classes of the data.
    count = run.num_members if run.is_by_class else len(run.classes)
    count = max([count, *map(len, newest.values())])
    metrics = run.rounds.last_metrics() if run.is_by_class else {}
    rows, lost = [], run.rounds.members.losses()
    for i in range(count):
        values = {name: found[i] for name, found in newest.items() if i < len(found)}
        why = _collapse(i, values, {} if i in lost else metrics)
        images = run.data.counts[i] if run.data and i < len(run.data.counts) else None
        name = str(run.classes[i]) if i < len(run.classes) else str(i)
        row = {"name": name, "count": images, "scores": values}
        rows.append({**row, "collapsed": bool(why), "why": why})
    return rows


def sites(run: Run) -> list[dict[str, Any]] | None:
    """Return a row per site with its newest scores, and the scores of which it has the worst.

    If the scores use several splits, which have other numbers of images, a site has several rows.
    """
    newest = {score.name: score for score in run.scores if score.sites}
    if not newest:
        return None
    last = max(score.round for score in newest.values())
    rows: dict[tuple[int, str, int], dict[str, Any]] = {}
    for name, score in newest.items():
        if score.round < last:  # perhaps of sites that are lost
            continue
        values = [site["value"] for site in score.sites or []]
        lowest = worst(values, direction(name, score.better))
        for i, site in enumerate(score.sites or []):
            facts = {key: site[key] for key in ("rank", "host", "images")}
            row = rows.setdefault(tuple(facts.values()), {**facts, "scores": {}, "worst": []})
            row["scores"][name] = site["value"]
            if i == lowest:
                row["worst"].append(name)
    return list(rows.values())


def _collapse(i: int, values: dict[str, float], metrics: dict[str, list[float]]) -> str:
    """Return why class i counts as collapsed; "" if it does not."""
    for name, value in values.items():
        if name.split("_")[0] == "diversity" and math.isfinite(value) and value < COLLAPSED_BELOW:
            return f"its samples vary {value:.2g} times as much as real images"
    for name, row in metrics.items():
        if i < len(row) and not math.isfinite(row[i]):
            return f"its {name.replace('_', ' ')} is not finite"
    return ""


def workers(run: Run) -> list[dict[str, Any]] | None:
    """Return a row per worker with its data, host, and how the server treats it."""
    if run.noun != "worker":
        return None
    shares = _shares(run)
    kept = run.rounds.last_metrics().get("kept", [])
    hosts = {}
    for rank in run.written["ranks"] if run.written else ():
        hosts |= dict.fromkeys(rank.get("members", ()), rank.get("host"))
    losses = run.rounds.members.losses()
    return [
        {
            "id": i,
            "share": shares.get(i),
            "host": hosts.get(i),
            "kept": kept[i] if i < len(kept) else None,
            "turns": run.rounds.turns.get(i),
            "lost": losses.get(i),
        }
        for i in range(run.num_members)
    ]


def _shares(run: Run) -> dict[int, int]:
    """Return the images of each remaining worker, by its id."""
    shares, losses = run.data.shares if run.data else [], run.rounds.members.losses()
    present = [i for i in range(run.num_members) if i not in losses]
    # A run with fewer discriminators than workers records the shares of all workers.
    return dict(zip(present, shares, strict=True)) if len(present) == len(shares) else {}
