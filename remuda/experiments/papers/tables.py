"""Show a result as a table: the paper's values, and the values of our runs next to them."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from remuda.errors import UserError
from remuda.experiments.papers.description import Evidence, Form
from remuda.experiments.papers.values import Extract, Value, text_of
from remuda.system import disk

Printed = float | tuple[float, float]  # a value, or a value and its deviation
TITLES = ("row", "column", "paper", "paper_deviation", "here", "deviation", "count", "name", "gap")


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column, and how our value is extracted."""

    title: str
    extract: Extract | None = None  # None: the paper's values only
    work: str = "{}"  # the name of the work; {} stands for the key of the row
    digits: int = 2


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row, and the paper's values by column."""

    title: str
    key: str
    paper: Mapping[str, Printed] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Table(Form):
    """A table whose cells have a value of the paper, a value of our runs, or both."""

    corner: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    @property
    def numbers(self) -> list[float]:
        """All numbers of the paper."""
        found = [value for row in self.rows for value in row.paper.values()]
        return [one for value in found for one in (value if isinstance(value, tuple) else (value,))]

    @property
    def names(self) -> set[str]:
        """The names of the works that it reads."""
        columns = [column for column in self.columns if column.extract is not None]
        return {column.work.format(row.key) for column in columns for row in self.rows}

    def render(self, evidence: Evidence, stem: Path) -> list[str]:
        """Write the values to STEM.csv, and return the table and the reasons for its gaps."""
        header, records, gaps = [self.corner], [], Gaps()
        cells: list[list[str]] = [[row.title] for row in self.rows]
        for column in self.columns:
            has_paper = any(column.title in row.paper for row in self.rows)
            header += [f"{column.title}, paper"] if has_paper else []
            header += [f"{column.title}, here"] if column.extract else []
            for row, line in zip(self.rows, cells, strict=True):
                paper = row.paper.get(column.title)
                line += [_printed(paper)] if has_paper else []
                value, reason = _extract(column, row, evidence)
                if column.extract:
                    line.append(
                        gaps.mark(reason) if value is None else text_of(value, column.digits)
                    )
                records.append(_record(row, column, paper, value, reason))
        write_csv(stem.with_name(f"{stem.name}.csv"), TITLES, records)
        return [*markdown(header, cells), *gaps.notes()]


class Gaps:
    """Number the reasons for missing values."""

    def __init__(self) -> None:
        self.reasons: dict[str, int] = {}

    def mark(self, reason: str) -> str:
        """Return the text of a cell without a value."""
        number = self.reasons.setdefault(reason, len(self.reasons) + 1)
        return f"gap ({number})"

    def notes(self) -> list[str]:
        """Return a list with the reasons; [] if there is no gap."""
        if not self.reasons:
            return []
        return ["", *(f"- gap ({number}): {reason}" for reason, number in self.reasons.items())]


@dataclass(frozen=True, kw_only=True)
class Computed(Form):
    """A table or figure that is computed without training."""

    compute: Callable[[], tuple[list[str], list[list[str]]]]  # header and rows
    paper: tuple[float, ...] = ()
    draw: Callable[[Path], None] | None = None
    notes: Callable[[], list[str]] = list

    @property
    def numbers(self) -> list[float]:
        """All numbers of the paper."""
        return list(self.paper)

    def render(self, evidence: Evidence, stem: Path) -> list[str]:
        """Write the table to STEM.csv and the figure to STEM.png."""
        header, rows = self.compute()
        write_csv(stem.with_name(f"{stem.name}.csv"), header, rows)
        lines = [*markdown(header, rows), "", *self.notes()]
        if self.draw is None:
            return lines
        picture = stem.with_name(f"{stem.name}.png")
        self.draw(picture)
        return [f"![{stem.name}]({picture.name})", "", *lines]


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return [
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    ]


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a table as a CSV file."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([header, *rows])
    disk.write_text(path, buffer.getvalue())


def _extract(column: Column, row: Row, evidence: Evidence) -> tuple[Value | None, str]:
    if column.extract is None:
        return None, ""
    try:
        return column.extract(evidence.of(column.work.format(row.key)), row.key), ""
    except UserError as reason:
        return None, str(reason)


def _printed(paper: Printed | None) -> str:
    if paper is None:
        return ""
    return " ± ".join(map(str, paper)) if isinstance(paper, tuple) else str(paper)


def _record(
    row: Row, column: Column, paper: Printed | None, value: Value | None, reason: str
) -> list[object]:
    theirs = paper if isinstance(paper, tuple) else (paper, None)
    ours: list[object] = ["", "", "", ""]
    if value is not None:
        ours = [value.mean, value.deviation, value.count, value.name]
    return [row.title, column.title, *theirs, *ours, reason]
