"""Find out which run of a result a run folder is, by its settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from remuda.config import comparable, to_dict
from remuda.errors import UserError
from remuda.experiments.papers.description import Evidence, Options, Result
from remuda.experiments.papers.works import Training
from remuda.record import Record
from remuda.reports.compare.groups import relevant

# Runs may be shorter or longer, have lost ranks, or read images from another folder.
IGNORED = {
    "run.rounds",
    "run.max_minutes",
    "run.patience",
    "run.lost",
    "data.ranks",
}


def evidence_from(result: Result, folders: Sequence[Path], options: Options) -> Evidence:
    """Assign every run folder to a run of the result; folders of runs stand for their runs."""
    trainings = [work for work in result.works if isinstance(work, Training)]
    wanted = {work.name: _settings(to_dict(work.config(options))) for work in trainings}
    if not wanted:
        raise UserError(f"{result.name} uses no training runs: leave out --from")
    found: dict[str, list[Path]] = {}
    for folder in _runs(folders):
        found.setdefault(_name(result, folder, wanted), []).append(folder)
    gaps = {work.name: f"no run folder of {work.name} is in --from" for work in result.works}
    gaps = {name: why for name, why in gaps.items() if name not in found}
    return Evidence(folders=found, gaps=gaps, short=options.short)


def _runs(folders: Sequence[Path]) -> list[Path]:
    """Replace each folder of runs, or of folders of seeds, by the runs in it."""
    found = []
    for folder in folders:
        inner = [folder] if (folder / "config.toml").exists() else []
        for pattern in ("*/config.toml", "*/*/config.toml"):
            inner = inner or sorted(path.parent for path in folder.glob(pattern))
        found += inner or [folder]
    return found


def _name(result: Result, folder: Path, wanted: dict[str, dict[str, Any]]) -> str:
    settings = _settings(Record.open(folder).comparable)
    differing = {
        name: sorted(key for key in settings | known if settings.get(key) != known.get(key))
        for name, known in wanted.items()
    }
    nearest = min(differing, key=lambda name: len(differing[name]))
    if differing[nearest]:
        raise UserError(
            f"{folder} is none of the runs of {result.name}: it differs from {nearest} in "
            f"{', '.join(differing[nearest])}; leave it out, or add the settings with --set"
        )
    return nearest


def _settings(values: dict[str, Any]) -> dict[str, Any]:
    found = relevant(comparable(values))
    if str(found.get("data.name", "")).startswith("folder:"):
        found["data.name"] = "folder:"
    return {key: value for key, value in found.items() if key not in IGNORED}
