"""Put the figures of a paper next to the run's own values, in one table."""

from collections.abc import Iterator
from typing import Any

from remuda.record.scores import Score
from remuda.reports.page.run import Run

COLUMNS = ["", "paper", "this run", "how this run measured it"]
TEXTS = ("source", "table", "figure", "score", "finding")  # keys that describe the figures
KINDS = {"inception_score": "is", "frechet_inception_distance": "fid"}  # key: kind of score


def paper(run: Run) -> dict[str, Any] | None:
    """Return the table; None if the recipe quotes no paper."""
    quoted = run.section("paper")
    if not quoted:
        return None
    rows = [[_readable(key), text, *_own(run, quoted, key)] for key, text in _figures(quoted)]
    if "finding" in quoted:
        newest = _newest(run).values()
        own = "; ".join(f"{score.name} {_number(score.value)}" for score in newest)
        how = f"newest scores, up to round {run.scores[-1].round:,}" if own else ""
        rows.append(["finding", str(quoted["finding"]), own, how])
    place = [f"{key} {quoted[key]}" for key in ("table", "figure") if key in quoted]
    title = f"Next to the paper's {place[0]}" if place else "Next to the paper"
    notes = [f"{quoted[key]}." for key in ("score", "source") if key in quoted]
    notes.append("The protocols differ unless the text says otherwise.")
    return {"title": title, "columns": COLUMNS, "rows": rows, "note": " ".join(notes)}


def _figures(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the names and values of nested tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _figures(value, f"{prefix}{key}, ")
        elif prefix or key not in TEXTS:
            values = value if isinstance(value, list) else [value]
            yield f"{prefix}{key}", ", ".join(map(str, values))


def _own(run: Run, quoted: dict[str, Any], key: str) -> tuple[str, str]:
    """Return the run's own value for a figure of the paper, and how it was measured."""
    kind = KINDS.get(key, "")
    if key in ("mean", "standard_deviation") and "mean" in quoted:
        words = str(quoted.get("score", "")).lower()
        kind = "is" if words.startswith("inception score") else ""
    if kind and (score := _newest_of_kind(run, kind)):
        value = score.spread if key == "standard_deviation" else score.value
        return ("" if value is None else _number(value)), f"{score.name}, round {score.round:,}"
    if key in ("minutes_on_one_core", "minutes_distributed"):
        return _minutes(run, is_distributed=key == "minutes_distributed")
    if key == "cores" and (ranks := _ranks(run)):
        return str(ranks), "ranks"
    return "", ""


def _minutes(run: Run, is_distributed: bool) -> tuple[str, str]:
    ranks = _ranks(run)
    if not run.reached or (ranks > 1) != is_distributed:
        return "", ""
    device = str(run.environments[-1].get("device", "")) if run.environments else ""
    place = f"{ranks} ranks" if ranks > 1 else "one process"
    how = f"{run.reached:,} of {run.planned:,} rounds, {place}, {device}".rstrip(", ")
    return f"{run.rounds.seconds / 60:,.2f}", how


def _ranks(run: Run) -> int:
    return int(run.environments[-1].get("ranks", 0) or 0) if run.environments else 0


def _newest(run: Run) -> dict[str, Score]:
    """Return the newest score of each name."""
    return {score.name: score for score in run.scores}


def _newest_of_kind(run: Run, kind: str) -> Score | None:
    """Return the newest score of a kind; an own classifier's score counts as ``is``."""
    found = None
    for score in run.scores:
        name = score.name.split("_")[0]
        if name == kind or (kind == "is" and name.endswith("-score")):
            found = score
    return found


def _number(value: float) -> str:
    return f"{value:,.4g}"


def _readable(name: str) -> str:
    return name.replace("_", " ")
