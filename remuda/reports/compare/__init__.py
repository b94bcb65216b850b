"""Runs beside each other: what they took, and their scores with the spread over seeds.

print(compare(["runs/a-repeats", "runs/b-repeats"]).render("text"))
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from remuda.errors import UserError
from remuda.reports.compare import gathering, groups
from remuda.reports.compare.columns import Column, columns
from remuda.reports.compare.groups import Group
from remuda.reports.compare.notes import notes
from remuda.reports.compare.tables import FORMATS

__all__ = ["FORMATS", "Column", "Comparison", "Group", "compare"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Groups of runs that differ by their seed alone; the first group is the one that the others are tested against."""

    groups: list[Group]
    columns: list[Column]
    notes: list[str]

    def render(self, format: str = "text") -> str:
        """The table with its notes; as CSV without."""
        if format not in FORMATS:
            raise UserError(f"--format {format} is unknown: known are {', '.join(FORMATS)}")
        return FORMATS[format](self.groups, self.columns, self.notes)


def compare(folders: Sequence[Path | str], round: int | None = None) -> Comparison:
    """The runs in these folders by their last scored rounds, or as they stood after the given round.

    A folder that is no run but holds some stands for all of them.
    """
    runs = [
        gathering.read(folder, round)
        for folder in gathering.expand([Path(folder) for folder in folders])
    ]
    if not runs:
        raise UserError("there is nothing to compare: name the folder of at least one run")
    if round is not None and not any(run.scores for run in runs):
        raise UserError(
            f"none of these runs has a score of round {round}: choose another --round, or leave it out"
        )
    together = groups.group(runs)
    found = columns(together)
    return Comparison(groups=together, columns=found, notes=notes(together, found, round))
