"""Render a comparison as text, CSV, Markdown or LaTeX."""

import csv
import io
import math
import re
import statistics
import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple

from remuda.reports.compare.columns import Column, Summary
from remuda.reports.compare.groups import Group

WIDTH = 120  # characters per line of text
FACTS = ["strategy", "seeds", "members", "rounds", "images", "seconds", "bytes"]
MISSING = "-"


class Cell(NamedTuple):
    """The text of a table cell, before the output format adds markup and escapes."""

    text: str
    is_best: bool = False
    tail: str = ""  # text after the mark of the best value


Grid = list[list[str]]  # rows of cells; the first row is the header


def as_text(groups: list[Group], columns: list[Column], notes: list[str]) -> str:
    """Return a table with aligned columns, split into several tables if it is too wide."""
    grid = _grid(groups, columns, _plain)
    marked = ["*: the best value."] if _has_best(columns) else []
    lines = [line for block in _blocks(grid) for line in [*_aligned(block), ""]]
    for note in marked + notes:
        lines += textwrap.wrap(
            note, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    return "\n".join(lines) + "\n"


def as_markdown(groups: list[Group], columns: list[Column], notes: list[str]) -> str:
    """Return a Markdown table and a list of notes."""

    def style(cell: Cell) -> str:
        text = _markdown(cell.text)
        return (f"**{text}**" if cell.is_best else text) + _markdown(cell.tail)

    header, *rows = _grid(groups, columns, style)
    rule = ["---"] + ["---:"] * (len(header) - 1)
    lines = [f"| {' | '.join(row)} |" for row in [header, rule, *rows]]
    marked = ["Bold: the best value."] if _has_best(columns) else []
    return "\n".join([*lines, "", *(f"- {_markdown(note)}" for note in marked + notes)]) + "\n"


def as_latex(groups: list[Group], columns: list[Column], notes: list[str]) -> str:
    """Return a LaTeX tabular with its notes."""

    def style(cell: Cell) -> str:
        text = _latex(cell.text)
        return (rf"\textbf{{{text}}}" if cell.is_best else text) + _latex(cell.tail)

    header, *rows = _grid(groups, columns, style)
    marked = ["Bold: the best value."] if _has_best(columns) else []
    lines = [
        r"% needs \usepackage{booktabs}",
        rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
        r"\toprule",
        rf"{' & '.join(header)} \\",
        r"\midrule",
        *(rf"{' & '.join(row)} \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        "",
        r"\medskip{\footnotesize\setlength{\parindent}{0pt}",
        *(_latex(note) + r"\par" for note in marked + notes),
        "}\n",
    ]
    return "\n".join(lines)


def as_csv(groups: list[Group], columns: list[Column], notes: list[str]) -> str:
    """Return one row per group with unrounded numbers; omit the notes."""
    parts = ("", " spread", " spread over", " n", " round", " p", " floor")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["name", *FACTS, *(column.label + part for column in columns for part in parts)]
    )
    for i, group in enumerate(groups):
        row: list[object] = [group.name, *_facts(group, str)]
        for column in columns:
            row += _numbers(column.cells[i], column.floors[i])
        writer.writerow(["" if value in (None, MISSING) else value for value in row])
    return out.getvalue()


FORMATS: dict[str, Callable[[list[Group], list[Column], list[str]], str]] = {
    "text": as_text,
    "csv": as_csv,
    "markdown": as_markdown,
    "latex": as_latex,
}


# The cells of a table


def _grid(groups: list[Group], columns: list[Column], style: Callable[[Cell], str]) -> Grid:
    """Return one row per group; if the rows are too wide, use columns where that is narrower."""
    table = cells(groups, columns)
    transposed = [list(row) for row in zip(*table, strict=True)]
    texts = ([[_plain(cell) for cell in row] for row in rows] for rows in (table, transposed))
    width, other = map(_width, texts)
    chosen = transposed if width > max(WIDTH, other) else table
    return [[style(cell) for cell in row] for row in chosen]


def _plain(cell: Cell) -> str:
    return f"{cell.text}{' *' if cell.is_best else ''}{cell.tail}"


def cells(groups: list[Group], columns: list[Column]) -> list[list[Cell]]:
    """Return the table: a header, one row per group, and one for real images if it is known."""
    header = [Cell(text) for text in ["name", *FACTS]]
    rows = [[Cell(text) for text in [group.name, *_facts(group, _readable)]] for group in groups]
    floor = [Cell("real images"), *[Cell(MISSING)] * len(FACTS)]
    for column in columns:
        header.append(Cell(f"{column.label} {column.direction}".strip()))
        digits = _decimals(column)
        for row, cell in zip(rows, column.cells, strict=True):
            row.append(_cell(cell, digits, column.best))
        ends = sorted({f"{x:.{digits}f}" for x in column.all_floors}, key=float)
        floor.append(Cell(_span(ends)))
    return [header, *rows, *([floor] if any(column.all_floors for column in columns) else [])]


def _cell(summary: Summary | None, digits: int, best: float | None) -> Cell:
    if summary is None:
        return Cell(MISSING)
    text = f"{summary.value:.{digits}f}"
    if summary.spread is not None:
        text += f" ± {summary.spread:.{digits}f}" + ("" if summary.over_seeds else "†")
    tail = f" (p = {summary.p:.2g})" if summary.p is not None else ""
    if summary.lacking:
        tail += f" ({len(summary.values)} of {len(summary.values) + len(summary.lacking)})"
    return Cell(text, summary.value == best, tail)


def _facts(group: Group, number: Callable[[int | float], str]) -> list[str]:
    """Return counts as one number, or as a range if runs differ; seconds and bytes as medians."""
    spans = [
        _span([number(n) for n in sorted({getattr(run, field) for run in group.runs})])
        for field in ("num_members", "num_rounds", "num_images")
    ]
    seconds = number(round(statistics.median(run.seconds for run in group.runs), 4))
    moved = [run.num_bytes for run in group.runs]
    known = [n for n in moved if n is not None]
    median = number(round(statistics.median(known))) if len(known) == len(moved) else MISSING
    return [group.strategy, str(len(group.runs)), *spans, seconds, median]


def _readable(number: int | float) -> str:
    return f"{number:,.1f}" if isinstance(number, float) else f"{number:,}"


def _numbers(summary: Summary | None, floors: list[float]) -> list[object]:
    floor = statistics.fmean(floors) if floors else None
    if summary is None:
        return [*[None] * 6, floor]
    kind = None
    if summary.spread is not None:
        kind = "seeds" if summary.over_seeds else "images"
    number = len(summary.values)
    return [summary.value, summary.spread, kind, number, summary.round, summary.p, floor]


def _span(ends: Sequence[str]) -> str:
    if not ends:
        return MISSING
    return ends[0] if len(ends) == 1 else f"{ends[0]}-{ends[-1]}"


def _decimals(column: Column) -> int:
    """Return how many decimals show four digits of the largest value; 0 for whole numbers."""
    cells = [cell for cell in column.cells if cell is not None]
    numbers = [x for cell in cells for x in (cell.value, cell.spread or 0.0)] + column.all_floors
    if all(x == round(x) for x in numbers):
        return 0
    largest = max(abs(cell.value) for cell in cells) or max(map(abs, numbers))
    return min(8, max(0, 3 - math.floor(math.log10(largest))))


def _has_best(columns: list[Column]) -> bool:
    return any(column.best is not None for column in columns)


# The layout of each format


def _blocks(grid: Grid) -> list[Grid]:
    """Split a wide table into tables that fit the line width; each starts with the names."""
    blocks, taken = [], 1
    while taken < len(grid[0]):
        end = taken + 1
        while end < len(grid[0]) and _width(_part(grid, taken, end + 1)) <= WIDTH:
            end += 1
        blocks.append(_part(grid, taken, end))
        taken = end
    return blocks


def _part(grid: Grid, start: int, end: int) -> Grid:
    """Return the names and the columns from start to end."""
    return [[row[0], *row[start:end]] for row in grid]


def _widths(grid: Grid) -> list[int]:
    return [max(map(len, column)) for column in zip(*grid, strict=True)]


def _width(grid: Grid) -> int:
    return sum(_widths(grid)) + 2 * (len(grid[0]) - 1)


def _aligned(grid: Grid) -> list[str]:
    first, *others = _widths(grid)
    lines = []
    for row in grid:
        numbers = (text.rjust(width) for text, width in zip(row[1:], others, strict=True))
        lines.append("  ".join([row[0].ljust(first), *numbers]))
    return [line.rstrip() for line in [lines[0], "-" * _width(grid), *lines[1:]]]


# Escapes for each format

_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "†": r"$^\dagger$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _markdown(text: str) -> str:
    """Escape characters that Markdown interprets, except underscores inside words."""
    return re.sub(r"[\\`*<|\[\]]|(?<![^\W_])_|_(?![^\W_])", lambda sign: "\\" + sign[0], text)
