"""The scores of a page: the last scored round with every score's protocol, its classes, and curves over the rounds."""

import math
from collections.abc import Sequence
from html import escape

from remuda.reports.page import plots
from remuda.reports.page.curves import Curve
from remuda.reports.page.reading import Run, Score
from remuda.system.text import duration

# Rounds are comparable as long as these are the same: key in the file, and in words.
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
    """Nothing where the run was never scored."""
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
        legend += " ±: the standard deviation over the score's splits or subsets."
    if any(score.floor is not None for score in last):
        legend += f" Floor: the same score of real {things} that are not in the reference."
    return f"""<div class="wide"><table><thead><tr>{header}</tr></thead>
<tbody>{rows}</tbody></table></div>
<p class="soft">{legend}</p>"""


def _row(score: Score, things: str) -> str:
    value = (
        number(score.value)
        if score.spread is None
        else f"{number(score.value)} ± {number(score.spread, 2)}"
    )
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
    """The first line, and small below it what remains."""
    first, *rest = map(escape, lines)
    small = "".join(f'<br><span class="soft">{text}</span>' for text in rest if text)
    return f'<td class="{kind}">{first}{small}</td>' if kind else f"<td>{first}{small}</td>"


def _earlier(run: Run, last: list[Score]) -> str:
    """Scores that the last scored round lacks must not vanish from the page."""
    newest = {score.name: score for score in run.scores}
    missing = [newest[name] for name in newest if name not in {score.name for score in last}]
    if not missing:
        return ""
    texts = (f"{score.name} {number(score.value)} (round {score.round:,})" for score in missing)
    return f'<p class="soft">Last taken at an earlier round: {escape(", ".join(texts))}.</p>'


def _by_class(run: Run, last: list[Score]) -> str:
    """All classes, however many: one that collapsed may be any of them."""
    columns = {score.name: score.classes for score in last if score.classes}
    if not columns:
        return ""
    count = max(map(len, columns.values()))
    names = run.classes[:count] if len(run.classes) >= count else range(count)
    header = "<th>class</th>" + "".join(
        f'<th class="number">{escape(name)}</th>' for name in columns
    )
    rows = "".join(
        f"<tr><td>{escape(str(name))}</td>{''.join(_bar(values, i) for values in columns.values())}</tr>"
        for i, name in enumerate(names)
    )
    return f"""<h3>Round {last[0].round:,}, class by class</h3>
<div class="wide tall"><table><thead><tr>{header}</tr></thead>
<tbody>{rows}</tbody></table></div>"""


def _bar(values: list[float], i: int) -> str:
    """A number on a bar, whose full length is the column's largest number."""
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
        legend += " Band: its spread to both sides."
    if any(score.floor is not None for score in shown):
        legend += f" Dashed: the floor, the same score of real {_things(run)}."
    stride = Curve.for_rounds(max(map(len, series.values())), 1).stride
    if stride > 1:
        legend += f" Each point is the mean of up to {stride:,} scored rounds."
    panels = "".join(map(_panel, series.values()))
    return (
        f'<h3>Round after round</h3><div class="panels">{panels}</div><p class="soft">{legend}</p>'
    )


def _panel(scores: list[Score]) -> str:
    curve, band = Curve.for_rounds(len(scores), 1), Curve.for_rounds(len(scores), 1)
    for score in scores:
        curve.add(score.round, [score.value])
        spread = (
            math.nan if score.spread is None or not math.isfinite(score.value) else score.spread
        )
        band.add(score.round, [score.value - spread, score.value + spread])
    curve.close()
    band.close()
    # Each round is scored against the same floor; where a later scoring took it anew, the newest counts.
    floors = [
        score.floor for score in scores if score.floor is not None and math.isfinite(score.floor)
    ]
    has_spread = any(score.spread is not None for score in scores)
    # The name's prefix keeps the panel's ids apart from those of a metric of the same name.
    svg = plots.curve_svg(
        f"score {scores[0].name}",
        curve,
        band=band if has_spread else None,
        floor=floors[-1] if floors else None,
    )
    differing = [
        text for key, text in PROTOCOL.items() if len({getattr(score, key) for score in scores}) > 1
    ]
    note = (
        f"<figcaption>Between these rounds changed: {', '.join(differing)}.</figcaption>"
        if differing
        else ""
    )
    return f"<figure><h3>{escape(scores[0].name)}</h3>{svg}{note}</figure>"


def number(value: float, digits: int = 5) -> str:
    """To that many significant digits, as an FID is in the tens and a KID in the thousandths; a count as it is."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:#,.{digits}g}".rstrip(".") if math.isfinite(value) else "not finite"


def _things(run: Run) -> str:
    return "points" if run.is_points else "images"
