"""Render the tables of a page: each member's metrics in the last round, and a paper's results."""

import math
from collections.abc import Iterator
from html import escape
from typing import Any

from remuda.record.rounds import is_metric
from remuda.record.seconds import parts
from remuda.reports.page.curves import mean
from remuda.reports.page.run import Run
from remuda.system.text import duration

MAX_ROWS = 30  # members


def last_round(run: Run) -> str:
    """Return a table with each member's metrics in the last round, and their means."""
    metrics = {name: values for name, values in run.rounds.last.items() if is_metric(values)}
    if not metrics:
        return ""
    count = max(map(len, metrics.values()))
    # After members are lost, row i is no longer class i.
    names = run.classes if run.is_by_class and count == run.num_members else []
    texts = ["member", "class"] if names else ["member"]
    header = "".join(f"<th>{text}</th>" for text in texts)
    header += "".join(f'<th class="number">{escape(readable(name))}</th>' for name in metrics)
    # A metric with fewer values, such as a server's, fits no row; only the last line shows it.
    columns = [values if len(values) == count else None for values in metrics.values()]
    rows = "".join(_member_row(i, names, columns) for i in range(min(count, MAX_ROWS)))
    if count > MAX_ROWS:
        width = len(texts) + len(metrics)
        rows += f'<tr><td colspan="{width}">… {count - MAX_ROWS:,} more</td></tr>'
    means = "".join(_number_cell(mean(values)) for values in metrics.values())
    foot = ""
    if count > 1:
        foot = f'<tfoot><tr><td colspan="{len(texts)}">mean</td>{means}</tr></tfoot>'
    return f"""<section>
<h2>Round {run.reached:,}, member by member</h2>
<div class="wide"><table><thead><tr>{header}</tr></thead>
<tbody>{rows}</tbody>
{foot}</table></div>
</section>"""


def paper(run: Run) -> str:
    """Return a table of the results that a recipe quotes from a paper."""
    figures = run.settings.get("paper", {})
    if not figures:
        return ""
    rows = "".join(
        f"<tr><th>{escape(readable(key))}</th><td>{escape(value)}</td></tr>"
        for key, value in _flat(figures)
    )
    return f"""<section><h2>Results in the paper</h2>
<div class="wide"><table>{rows}</table></div>
<p class="soft">Quoted from the paper for comparison, not measured in this run.</p></section>"""


def seconds(run: Run) -> str:
    """Return a table of where the time of the last start or resume went."""
    found = parts(run.environments[-1]) if run.environments else {}
    if not found:
        return ""
    total = sum(found.values())
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="number">{duration(value)}</td>'
        f'<td class="number">{value / max(total, 1e-9):.0%}</td></tr>'
        for name, value in found.items()
    )
    since = " since the last resume" if len(run.environments) > 1 else ""
    return f"""<section><h2>Where the time went</h2>
<div class="wide"><table>{rows}</table></div>
<p class="soft">{duration(total)}{since}, without the time to write this page.</p></section>"""


def readable(name: str) -> str:
    """Return a key with spaces instead of underscores."""
    return name.replace("_", " ")


def _member_row(i: int, names: list[str], columns: list[list[float] | None]) -> str:
    cells = [f"<td>{i}</td>"]
    if names:
        cells.append(f"<td>{escape(str(names[i])) if i < len(names) else ''}</td>")
    for values in columns:
        cells.append("<td></td>" if values is None else _number_cell(values[i]))
    return f"<tr>{''.join(cells)}</tr>"


def _number_cell(value: float) -> str:
    if not math.isfinite(value):
        text = "not finite"
    elif value == 0 or 1e-3 <= abs(value) < 1e6:
        text = f"{value:,.4f}"
    else:
        text = f"{value:.3e}"
    return f'<td class="number">{text}</td>'


def _flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the names and values of nested tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}, ")
        else:
            values = value if isinstance(value, list) else [value]
            yield f"{prefix}{key}", ", ".join(map(str, values))
