"""Build the data of a run's page, which scripts in the page turn into charts and tables.

The payload is JSON: numbers that are not finite become null. Large arrays are base64 of 32-bit
numbers. ``docs/watch.md`` describes the fields.
"""

import math
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from remuda.record.scores import Score
from remuda.reports.page import payload_paper, payload_parts, payload_texts
from remuda.reports.page.facts import facts
from remuda.reports.page.pictures import evenly
from remuda.reports.page.run import Run, Source
from remuda.scores.directions import HIGHER, LOWER, direction

VERSION = 1
MAX_SCORES = 1_000  # scores of a page; of more, some of each name are chosen evenly


def payload(run: Run, source: Source, start: int = 0, now: datetime | None = None) -> dict:
    """Return the data of a run's page; curves start at the point with the number ``start``."""
    now = now or datetime.now(UTC)
    state = _state(run, now)
    curves = run.rounds.curves
    directions = curves.directions(start)
    return {
        "version": VERSION,
        "name": run.folder.resolve().name,
        "about": str(run.settings.get("about", "")),
        "folder": str(run.folder),
        "strategy": run.strategy,
        "noun": run.noun,
        "state": state,
        "facts": [list(fact) for fact in facts(run)],
        "members": payload_parts.members(run),
        "curves": curves.payload(start),
        "last": clean(_last(run)),
        "scores": clean(_scores(run)),
        "pictures": payload_parts.pictures(run, source),
        "ranks": clean(_ranks(run)),
        "failures": clean(run.failures),
        "torus": payload_parts.torus(run, source, start),
        "classes": clean(payload_parts.classes(run)),
        "sites": clean(payload_parts.sites(run)),
        "workers": clean(payload_parts.workers(run)),
        "swaps": run.rounds.swaps,
        "num_swaps": run.rounds.num_swaps,
        "traffic": {"directions": directions} if directions else None,
        "paper": payload_paper.paper(run),
        "routines": payload_texts.routines(run),
        "seconds": payload_texts.seconds(run),
        "commands": payload_texts.commands(run, state["state"]),
        "details": payload_texts.details(run),
    }


def _state(run: Run, now: datetime) -> dict[str, Any]:
    state, remarks = run.state(now)
    ranks = run.written["ranks"] if run.written else []
    remarks += [rank["remark"] for rank in ranks if rank.get("remark")]
    if t := run.rounds.curves.unknown:
        remarks.append(f"the record does not say which members were lost before round {t:,}")
    if run.ending is not None and state != "running" and run.ending.why not in remarks:
        remarks.append(run.ending.why)
    since = run.environments[-1].get("time") if run.environments else None
    until = None
    recent = run.rounds.recent
    if state == "running" and recent:
        left = (run.planned - run.reached) * math.fsum(recent) / len(recent)
        until = (now + timedelta(seconds=left)).isoformat(timespec="seconds")
    return {
        "state": state,
        "since": since,
        "until": until,
        "reached": run.reached,
        "planned": run.planned,
        "remarks": remarks,
        "written": now.isoformat(timespec="seconds"),
    }


def _ranks(run: Run) -> list[dict[str, Any]]:
    """Return the ranks of status.json, which a run updates only after it wrote its last page."""
    ranks = run.written["ranks"] if run.written else []
    if not run.written or run.written["state"] != "running" or not run.has_ended:
        return ranks
    return [{**rank, "state": "finished", "round": run.reached} for rank in ranks]


def _last(run: Run) -> dict[str, Any]:
    """Return the newest round: the values of all members, and their means."""
    metrics = run.rounds.last_metrics()
    means = {}
    for name, values in metrics.items():
        finite = [value for value in values if math.isfinite(value)]
        means[name] = math.fsum(finite) / len(finite) if finite else None
    return {"round": run.reached, "metrics": metrics, "means": means}


def _scores(run: Run) -> list[dict[str, Any]]:
    """Return the scores with their directions; of very many, only some of each name.

    Only the newest score of each name keeps its values by class.
    """
    by_name: dict[str, list[Score]] = {}
    for score in run.scores:
        by_name.setdefault(score.name, []).append(score)
    rows = []
    for scores in by_name.values():
        chosen = evenly(scores, max(2, MAX_SCORES // len(by_name)))
        best = next((score for score in scores if _is_best(score, run)), None)
        if best is not None and best not in chosen:
            chosen = sorted([*chosen, best], key=lambda score: score.round)
        for score in chosen:
            arrow = direction(score.name, score.better)
            row = {**asdict(score), "best": score == best}
            row["better"] = {LOWER: "lower", HIGHER: "higher"}.get(arrow, "")
            row["sites"] = None  # they have their own table
            rows.append(row if score is scores[-1] else {**row, "classes": None})
    return sorted(rows, key=lambda row: row["round"])


def _is_best(score: Score, run: Run) -> bool:
    """Return whether this is the score of the best checkpoint, perhaps scored again."""
    return run.best is not None and (score.round, score.name) == (run.best.round, run.best.name)


def clean(value: Any) -> Any:
    """Return a value for JSON: numbers that are not finite become None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: clean(item) for key, item in value.items()}
    return [clean(item) for item in value] if isinstance(value, list | tuple) else value
