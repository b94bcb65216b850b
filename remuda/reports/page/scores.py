"""Render the scores of a page: the last scored round, its classes, and curves."""

import math
from collections.abc import Sequence
from html import escape

from remuda.record.scores import Score
from remuda.reports.page import plots
from remuda.reports.page.curves import Curve
from remuda.reports.page.run import Run
from remuda.system.text import duration

# Rounds are comparable only if these fields are equal. Each key maps to its name in words.
PROTOCOL = {
    "num_samples": "the number of samples",
    "reference": "the reference",
    "num_reference": "the size of the reference",
    "reference_digest": "the reference's digest",
    "network": "the network",
    "network_digest": "the network's digest",
    "precision": "the precision",
}


def section(run: Run) -> str:
    """Return the section about scores; "" if the run has no scores."""
    if not run.scores:
        return ""
    last = [score for score in run.scores if score.round == run.scores[-1].round]
    parts = [_table(run, last), _earlier(run, last), _by_class(run, last), _curves(run)]
    return f'<section class="scores">\n<h2>Scores</h2>\n{"".join(parts)}\n</section>'


def _table(run: Run, last: list[Score]) -> str:
    things = _things(run)
    numbers = ("value", f"floor: real {things}", "samples")
    header = "<th>score</th>" + "".join(f'<th class="number">{text}</th>' for text in numbers)
    header += "".join(f"<th>{text}</th>" for text in ("reference", "network, precision"))
    header += '<th class="number">took</th>'
    rows = "".join(_row(score, things) for score in last)
    legend = f"Round {last[0].round:,}."
    if any(score.spread is not None for score in last):
        legend += " ±: standard deviation over the score's splits or subsets."
    if any(score.floor is not None for score in last):
        legend += f" Floor: the same score of real {things} that are not in the reference."
    return f"""<div class="wide"><table><thead><tr>{header}</tr></thead>
<tbody>{rows}</tbody></table></div>
<p class="soft">{legend}</p>"""


def _row(score: Score, things: str) -> str:
    value = number(score.value)
    if score.spread is not None:
        value += f" ± {number(score.spread, 2)}"
    floor = "" if score.floor is None else number(score.floor)
    floor_from = f"{score.floor_samples:,} {things}" if floor and score.floor_samples else ""
    reference = f"{score.reference}, {score.num_reference:,}" if score.reference else "none"
    network = ", ".join(filter(None, (score.network or "none", score.precision)))
    cells = [
        _cell([value], "number"),
        _cell([floor, floor_from], "number"),
        _cell([f"{score.num_samples:,}", f"seed {score.seed}"], "number"),
        _cell([reference, score.reference_digest]),
        _cell([network, score.network_digest]),
        _cell([duration(score.seconds)], "number"),
    ]
    return f"<tr><th>{escape(score.name)}</th>{''.join(cells)}</tr>"


def _cell(lines: Sequence[str], kind: str = "") -> str:
    """Return a table cell with the first line in normal print and the others in small print."""
    first, *rest = map(escape, lines)
    small = "".join(f'<br><span class="soft">{text}</span>' for text in rest if text)
    return f'<td class="{kind}">{first}{small}</td>' if kind else f"<td>{first}{small}</td>"


def _earlier(run: Run, last: list[Score]) -> str:
    """Return a note about scores that only earlier rounds have."""
    newest = {score.name: score for score in run.scores}
    missing = [newest[name] for name in newest if name not in {score.name for score in last}]
    if not missing:
        return ""
    texts = (f"{score.name} {number(score.value)} (round {score.round:,})" for score in missing)
    return f'<p class="soft">Computed only for earlier rounds: {escape(", ".join(texts))}.</p>'


def _by_class(run: Run, last: list[Score]) -> str:
    """Return a table of all classes, because any of them may have collapsed."""
    columns = {score.name: score.classes for score in last if score.classes}
    if not columns:
        return ""
    count = max(map(len, columns.values()))
    names = run.classes[:count] if len(run.classes) >= count else range(count)
    header = "".join(f'<th class="number">{escape(name)}</th>' for name in columns)
    rows = ""
    for i, name in enumerate(names):
        bars = "".join(_bar(values, i) for values in columns.values())
        rows += f"<tr><td>{escape(str(name))}</td>{bars}</tr>"
    return f"""<h3>Round {last[0].round:,}, class by class</h3>
<div class="wide tall"><table><thead><tr><th>class</th>{header}</tr></thead>
<tbody>{rows}</tbody></table></div>"""


def _bar(values: list[float], i: int) -> str:
    """Return a cell with a number on a bar; the largest number of the column fills its bar."""
    if i >= len(values):
        return "<td></td>"
    top = max((value for value in values if math.isfinite(value)), default=0)
    part = max(0, values[i] / top) if top > 0 and math.isfinite(values[i]) else 0
    return f'<td class="number bar" style="--part: {100 * part:.1f}%">{number(values[i], 4)}</td>'


def _curves(run: Run) -> str:
    series: dict[str, list[Score]] = {}
    for score in run.scores:
        series.setdefault(score.name, []).append(score)
    series = {name: scores for name, scores in series.items() if len(scores) > 1}
    if not series:
        return ""
    shown = [score for scores in series.values() for score in scores]
    legend = "Thick: the score."
    if any(score.spread is not None for score in shown):
        legend += " Band: the score plus and minus its spread."
    if any(score.floor is not None for score in shown):
        legend += f" Dashed: the floor, the same score of real {_things(run)}."
    stride = Curve.for_rounds(max(map(len, series.values())), 1).stride
    if stride > 1:
        legend += f" Each point is the mean of up to {stride:,} scored rounds."
    panels = "".join(map(_panel, series.values()))
    return f"""<h3>Over the rounds</h3>
<div class="panels">{panels}</div>
<p class="soft">{legend}</p>"""


def _panel(scores: list[Score]) -> str:
    curve, band = Curve.for_rounds(len(scores), 1), Curve.for_rounds(len(scores), 1)
    for score in scores:
        curve.add(score.round, [score.value])
        spread = math.nan
        if score.spread is not None and math.isfinite(score.value):
            spread = score.spread
        band.add(score.round, [score.value - spread, score.value + spread])
    curve.close()
    band.close()
    # The floor does not depend on the round. If several floors are recorded, use the newest.
    floors = [score.floor for score in scores if score.floor is not None]
    floors = [floor for floor in floors if math.isfinite(floor)]
    has_spread = any(score.spread is not None for score in scores)
    # The prefix keeps the panel's ids distinct from those of a metric with the same name.
    svg = plots.curve_svg(
        f"score {scores[0].name}",
        curve,
        band=band if has_spread else None,
        floor=floors[-1] if floors else None,
    )
    note = ""
    if changed := [PROTOCOL[key] for key in PROTOCOL if len({getattr(s, key) for s in scores}) > 1]:
        note = f"<figcaption>Changed between these rounds: {', '.join(changed)}.</figcaption>"
    return f"<figure><h3>{escape(scores[0].name)}</h3>{svg}{note}</figure>"


def number(value: float, digits: int = 5) -> str:
    """Format a number with this many significant digits, and a count with all its digits.

    Significant digits suit scores of different magnitudes: an FID is in the tens, a KID in the
    thousandths.
    """
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:#,.{digits}g}".rstrip(".") if math.isfinite(value) else "not finite"


def _things(run: Run) -> str:
    return "points" if run.is_points else "images"
