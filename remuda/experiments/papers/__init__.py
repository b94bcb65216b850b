"""Reproduce the tables and figures of the papers by name.

    for result in find("md-gan-figure-3"):
        outcome = reproduce(result, Options(short=True))

Each table and figure is described by data, in one file per paper. An executor that all share trains
the runs, and forms write tables and figures next to the papers' values.
"""

from remuda.experiments.papers.description import Options, Result
from remuda.experiments.papers.executor import (
    Outcome,
    Planned,
    plan,
    redraw,
    refuse_gaps,
    reproduce,
)
from remuda.experiments.papers.listing import as_markdown, others_of, rows
from remuda.experiments.papers.matching import evidence_from
from remuda.experiments.papers.registry import PAPERS, RESULTS, find

__all__ = [
    "PAPERS",
    "RESULTS",
    "Options",
    "Outcome",
    "Planned",
    "Result",
    "as_markdown",
    "evidence_from",
    "find",
    "others_of",
    "plan",
    "redraw",
    "refuse_gaps",
    "reproduce",
    "rows",
]
