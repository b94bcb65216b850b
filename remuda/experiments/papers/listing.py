"""List all tables and figures with their states, for the terminal and for the documentation."""

from remuda.experiments.papers.description import Paper, Result
from remuda.experiments.papers.registry import PAPERS, RESULTS
from remuda.experiments.papers.tables import markdown

HEADER = ("name", "content", "state")
DOCS = "docs/"  # pages are named relative to this folder


def results_of(paper: Paper) -> list[Result]:
    """Return the tables and figures of a paper that have results."""
    return [one for one in RESULTS.values() if one.paper == paper and one.form is not None]


def others_of(paper: Paper) -> str:
    """Return a sentence with the tables and figures that have no results."""
    found = [one for one in RESULTS.values() if one.paper == paper and one.form is None]
    return f"Not a result: {'; '.join(f'{one.number} ({one.caption})' for one in found)}."


def describe_state(result: Result, is_link: bool = False) -> str:
    """Return the state with the page of our values, or the data that users must bring."""
    scope = f" ({result.scope})" if result.scope else ""
    if result.needs:
        return f"{result.state}: {result.needs}"
    if not result.page:
        return f"{result.state}{scope}"
    if is_link:
        return f"[{result.state}]({result.page}){scope}"
    return f"{result.state}{scope}: {DOCS}{result.page.partition('#')[0]}"


def rows(paper: Paper) -> list[tuple[str, str, str]]:
    """Return the name, the content and the state of every result."""
    return [
        (one.name, f"{one.number}: {one.caption}", describe_state(one)) for one in results_of(paper)
    ]


def as_markdown() -> str:
    """Return the whole list as Markdown, as in docs/papers.md."""
    lines = []
    for paper in PAPERS:
        table = [
            [f"`{one.name}`", f"{one.number}: {one.caption}", describe_state(one, is_link=True)]
            for one in results_of(paper)
        ]
        lines += [f"### {paper.name}", "", f"{paper.source}.", ""]
        lines += [*markdown(HEADER, table), "", others_of(paper), ""]
    return "\n".join(lines)
