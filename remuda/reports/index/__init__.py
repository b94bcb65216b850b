"""The page of a folder of runs: an index with search, sorting and a choice of runs to compare."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from remuda.record.files import is_number
from remuda.reports.index.files import Measured
from remuda.reports.index.summary import Cache, Scored, Summary, find, is_run
from remuda.reports.page import html

__all__ = ["Cache", "Scored", "Summary", "document", "find", "is_run", "payload"]

VERSION = 1
SCRIPTS = ["poll.js", "index.js", "index-page.js"]
STYLES = ["index.css"]


def payload(folder: Path, cache: Cache, picture: Callable[[Path], str]) -> dict[str, Any]:
    """Return everything that the page of a folder shows, as JSON values.

    ``picture`` returns the address of a sample grid. Runs outside the folder, to which links in the
    folder lead, are left out.
    """
    root = folder.resolve()
    found = cache.summaries(folder)
    inside = [one for one in found if one.folder.resolve().is_relative_to(root)]
    return {
        "version": VERSION,
        "name": root.name,
        "folder": str(folder),
        "runs": [_run(one, picture) for one in inside],
    }


def document(payload: dict[str, Any], live: dict[str, Any] | None = None) -> str:
    """Return the page of a folder as HTML."""
    title = f"Runs in {payload['name']}"
    return html.document(title, payload, scripts=SCRIPTS, styles=STYLES, live=live)


def _run(one: Summary, picture: Callable[[Path], str]) -> dict[str, Any]:
    grid = None
    if one.grid is not None:
        grid = {
            "round": one.grid[0],
            "src": picture(one.grid[1]),
            "is_points": one.is_points,
        }
    return {
        "id": one.name,
        "strategy": one.strategy,
        "data": one.data,
        "state": one.state,
        "remarks": one.remarks,
        "round": one.reached,
        "rounds": one.planned,
        "left": one.left,
        "seconds": one.seconds,
        "is_exact": one.is_exact,
        "started": one.started or None,
        "scores": {scored.name: _score(scored) for scored in one.scores},
        "chosen": one.chosen.name if one.chosen is not None else None,
        "picture": grid,
    }


def _score(scored: Scored) -> dict[str, Any]:
    return {
        "direction": scored.direction,
        "best": _value(scored.best),
        "newest": _value(scored.newest),
    }


def _value(score: Measured | None) -> dict[str, Any] | None:
    if score is None:
        return None
    return {"round": score.round, "value": score.value if is_number(score.value) else None}
