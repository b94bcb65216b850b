"""Compare runs: their cost, and their scores with the spread over seeds.

print(compare(["runs/a-repeats", "runs/b-repeats"]).render("text"))
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from remuda.errors import UserError
from remuda.reports.compare import groups, page, runs, tables
from remuda.reports.compare.columns import Column, columns
from remuda.reports.compare.groups import Group
from remuda.reports.compare.notes import notes

__all__ = ["FORMATS", "Column", "Comparison", "Group", "compare", "compare_runs", "format_of"]

FORMATS = {**tables.FORMATS, "html": page.as_html}
# The formats of files whose names end like this.
ENDINGS = {
    "": "text",
    ".txt": "text",
    ".csv": "csv",
    ".md": "markdown",
    ".tex": "latex",
    ".html": "html",
    ".htm": "html",
}


def format_of(path: Path) -> str:
    """Return the format for a file name; raise if its ending is not known."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise UserError(
            f"the name {path} does not say how to write the comparison: end it with one of "
            f"{', '.join(filter(None, ENDINGS))}, or choose a format with --format"
        )
    return ENDINGS[ending]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Groups of runs that differ only in their seed. Tests compare each group with the first."""

    groups: list[Group]
    columns: list[Column]
    notes: list[str]

    def render(self, format: str = "text") -> str:
        """Return the table and its notes as text, or a page with curves and samples.

        CSV has no notes.
        """
        if format not in FORMATS:
            raise UserError(f"--format {format} is unknown: choose from {', '.join(FORMATS)}")
        return FORMATS[format](self.groups, self.columns, self.notes)


def compare(folders: Path | str | Sequence[Path | str], round: int | None = None) -> Comparison:
    """Compare runs by their last scored rounds, or as they were after a given round.

    A folder of runs stands for every run in it.
    """
    if isinstance(folders, Path | str):
        folders = [folders]
    paths = runs.expand([Path(folder) for folder in folders])
    return compare_runs([runs.read(path, round) for path in paths], round)


def compare_runs(found: list[runs.Run], round: int | None = None) -> Comparison:
    """Compare runs that were read up to a given round, or completely."""
    if not found:
        raise UserError("nothing to compare: name the folder of at least one run")
    if round is not None and not any(run.scores for run in found):
        raise UserError(
            f"none of these runs has a score of round {round}: choose another --round, or omit it"
        )
    grouped = groups.group(found)
    scored = columns(grouped)
    return Comparison(groups=grouped, columns=scored, notes=notes(grouped, scored, round))
