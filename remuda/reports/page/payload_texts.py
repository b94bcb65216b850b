"""Build the parts of the payload that are text: commands, times and settings."""

import json
from shlex import quote
from typing import Any

from remuda.errors import command
from remuda.record import parts
from remuda.record.seconds import parts as seconds_by_part
from remuda.reports.page import routines as profiles
from remuda.reports.page.run import Run
from remuda.system.text import duration


def commands(run: Run, state: str) -> list[dict[str, str]]:
    """Return commands to paste. Never advise to resume a run that is training."""
    found = []
    if run.has_checkpoint:  # otherwise, there is no model to load
        trust = ", trust=True" if parts.read(run.folder) else ""
        python = f"import remuda\n\nimages = remuda.load({str(run.folder)!r}{trust}).sample(16)"
        found.append({"title": "Sample", "text": _sample(run)})
        found.append({"title": "Use in Python", "text": python})
    if state == "running":
        text = f"remuda status {quote(str(run.folder))} --watch"
        found.insert(0, {"title": "Follow in a terminal", "text": text})
    elif run.reached or state != "unknown":  # a run without any file but settings may be starting
        found.insert(0, {"title": "Resume", "text": _resume(run)})
    return found


def _resume(run: Run) -> str:
    rounds = run.planned if run.reached < run.planned else 2 * run.reached
    more = f"--rounds {rounds}" if run.ending is None else f"--set {run.ending.remedy}"
    return f"{command('resume', run.folder)} {more}"


def _sample(run: Run) -> str:
    labels = "--label all --n 10" if run.has_labels else "--n 64"
    return f"{command('sample', run.folder)} {labels} --out grid.png"


def routines(run: Run) -> dict[str, Any] | None:
    """Return the times of a cellular run's routines next to those of the paper."""
    found = profiles.of_run(run)
    if found is None:
        return None
    return {
        "title": "Routines, next to table IV of the cellular paper",
        "columns": profiles.HEADER,
        "rows": found.rows(),
        "note": " ".join(found.notes()),
    }


def seconds(run: Run) -> dict[str, Any] | None:
    """Return where the time of the last start or resume went."""
    found = seconds_by_part(run.environments[-1]) if run.environments else {}
    if not found:
        return None
    total = sum(found.values())
    since = " since the last resume" if len(run.environments) > 1 else ""
    return {
        "title": "Where the time went",
        "columns": ["part", "time", "share"],
        "rows": [
            [name, duration(value), f"{value / max(total, 1e-9):.0%}"]
            for name, value in found.items()
        ],
        "note": f"{duration(total)}{since}, without the time to write this page.",
    }


def details(run: Run) -> list[dict[str, str]]:
    """Return the long texts that the page folds away."""
    found = [{"title": "Configuration", "text": run.reader.settings_text}]
    if run.environments:
        text = json.dumps(run.environments, indent=1, ensure_ascii=False)
        found.append({"title": "Environment", "text": text})
    return found
