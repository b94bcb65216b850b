"""Show a comparison as a page: curves, samples side by side, scores, and different settings."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from remuda.record.reader import Reader, round_of
from remuda.record.scores import Score
from remuda.reports.compare import tables
from remuda.reports.compare.columns import PROTOCOL, Column
from remuda.reports.compare.curves import interpolate
from remuda.reports.compare.groups import CONTENT, Group, content_of, differing, plain
from remuda.reports.compare.notes import different_settings
from remuda.reports.compare.runs import Run
from remuda.reports.page import html, pictures
from remuda.system.text import count

VERSION = 1
SCRIPTS = ["poll.js", "compare-data.js", "compare-samples.js", "compare.js"]
STYLES = ["compare.css"]
MAX_PICTURES = 24  # of a run
MAX_EMBEDDED = 160  # of all runs together in a page without a server
EMBEDDED_BYTES = 5_000_000  # that these may weigh, before base64 makes them larger by a third

Source = Callable[[Path], dict[str, Any] | None]  # makes {src, width, height}; None: damaged
Grids = list[list[Path]]  # the pictures of each run, oldest first


def as_html(groups: list[Group], columns: list[Column], notes: list[str]) -> str:
    """Return a page that contains everything that it shows."""
    number = max(2, min(MAX_PICTURES, MAX_EMBEDDED // sum(len(group.runs) for group in groups)))
    grids = evenly_chosen(groups, number)
    share = EMBEDDED_BYTES // max(1, sum(map(len, grids)))  # bytes per picture
    source = pictures.Embedded(share * pictures.Embedded.limit)
    return document(build(groups, columns, notes, grids, source))


def document(payload: dict[str, Any], live: dict[str, Any] | None = None) -> str:
    """Return the page of a comparison as HTML."""
    return html.document(payload["title"], payload, scripts=SCRIPTS, styles=STYLES, live=live)


def build(
    groups: list[Group],
    columns: list[Column],
    notes: list[str],
    grids: Grids,
    source: Source,
) -> dict[str, Any]:
    """Return everything that the page shows, as JSON values."""
    runs = [(i, run) for i, group in enumerate(groups) for run in group.runs]
    names = ", ".join(group.name for group in groups)
    listed = different_settings(groups)  # the page has a table of them
    return {
        "version": VERSION,
        "title": f"Comparison: {names}" if len(names) < 100 else f"Comparison of {len(runs)} runs",
        "about": f"{count(len(runs), 'run')} in {count(len(groups), 'group')}",
        "groups": [{"name": group.name, "strategy": group.strategy} for group in groups],
        "runs": [
            _run(i, groups[i], run, columns, [_picture(path, run, source) for path in paths])
            for (i, run), paths in zip(runs, grids, strict=True)
        ],
        "scores": [
            {"label": column.label, "direction": column.direction, "floor": _floor(column)}
            for column in columns
        ],
        "table": _table(groups, columns),
        "notes": [note for note in notes if note not in listed],
        "protocols": _protocols(groups, columns),
        "settings": _settings(groups),
    }


def _run(
    group: int, of: Group, run: Run, columns: list[Column], shown: list[dict[str, Any]]
) -> dict[str, Any]:
    seed = run.settings["run"]["seed"]
    axes = run.curves.axes()
    histories = {column.label: column.history(run) for column in columns}
    return {
        "name": of.name if len(of.runs) == 1 else f"{of.name}, seed {seed}",
        "folder": str(run.folder),
        "seed": seed,
        "group": group,
        "reached": run.num_rounds,
        "stride": run.curves.stride,
        "axes": axes,
        "metrics": run.curves.metrics(),
        "scores": {label: _history(scores, axes) for label, scores in histories.items() if scores},
        "pictures": shown,
    }


def _history(scores: Sequence[Score], axes: dict[str, list[float | None]]) -> dict[str, Any]:
    """Return the values of a score with the totals after the rounds in which it was computed."""
    totals = [interpolate(axes, score.round) for score in scores]
    return {
        "axes": {name: [total[name] for total in totals] for name in axes},
        "values": [score.value for score in scores],
    }


def _floor(column: Column) -> float | None:
    """Return the score of real images, if all runs have the same."""
    floors = {f"{floor:.6g}" for floor in column.all_floors}
    return column.all_floors[0] if len(floors) == 1 else None


# Tables


def _table(groups: list[Group], columns: list[Column]) -> dict[str, Any]:
    """Return the table of costs and scores, with a row for each fact and score."""
    header, *rows = map(list, zip(*tables.cells(groups, columns), strict=True))
    return {
        "columns": [cell.text for cell in header],
        "rows": [[cell._asdict() for cell in row] for row in rows],
    }


def _protocols(groups: list[Group], columns: list[Column]) -> dict[str, Any]:
    names = ["score", *(name.replace("_", " ") for name in PROTOCOL), "precision", "rounds"]
    rows = []
    for column in columns:
        cells = [cell for cell in column.cells if cell is not None]
        precisions = sorted({name for cell in cells for name in cell.precisions})
        rounds = sorted({t for cell in cells for t in cell.rounds})
        protocol = [str(value) if value != "" else tables.MISSING for value in column.protocol]
        rows.append([column.label, *protocol, ", ".join(precisions), ", ".join(map(str, rounds))])
    used = [j for j in range(len(names)) if any(row[j] != tables.MISSING for row in rows)]
    return {
        "columns": [names[j] for j in used],
        "rows": [[row[j] for j in used] for row in rows],
    }


def _settings(groups: list[Group]) -> dict[str, Any]:
    """Return the settings in which the groups differ."""
    rows = []
    for key in differing(groups):
        if key == CONTENT:
            rows.append(["data", *(content_of(group.runs[0]) for group in groups)])
        else:
            rows.append([key, *(plain(group.settings.get(key)) for group in groups)])
    return {"columns": ["setting", *(group.name for group in groups)], "rows": rows}


# Pictures


def evenly_chosen(groups: list[Group], number: int = MAX_PICTURES) -> Grids:
    """Return evenly chosen sample grids of each run, among them the newest."""
    runs = [run for group in groups for run in group.runs]
    return [pictures.evenly(Reader(run.folder).sample_grids(), number) for run in runs]


def _picture(path: Path, run: Run, source: Source) -> dict[str, Any]:
    found = source(path) or {"src": None, "width": 0, "height": 0}
    return {"round": round_of(path), "is_points": run.facts.is_points, **found}
