"""Render the page section by section. A section without data is omitted or says so."""

import json
import shlex
from html import escape
from pathlib import Path
from string import Template

from remuda.reports.page import pictures, plots, routines, scores, tables
from remuda.reports.page.facts import facts
from remuda.reports.page.run import Run

PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
LARGE = 960  # pixels; limit for the longer side when the newest grid is enlarged
MAX_WIDTH = 1800  # pixels; limit for the width of the newest grid
THUMBNAIL = 240  # pixels; twice the displayed width, to be sharp on a phone's screen
MAX_STRIP = 8  # grids below the newest one


def render(run: Run) -> str:
    """Return the page's HTML."""
    name = run.folder.resolve().name
    sections = [
        _head(run, name),
        _samples(run),
        scores.section(run),
        _curves(run),
        tables.last_round(run),
        routines.section(run),
        tables.seconds(run),
        tables.paper(run),
        _next_steps(run),
        _details(run),
    ]
    body = "\n".join(section for section in sections if section)
    return PAGE.substitute(title=escape(f"{name}: {run.strategy}"), body=body)


def _head(run: Run, name: str) -> str:
    about = run.settings.get("about", "")
    planned, reached = run.setting("run", "rounds"), run.reached
    cells = (
        f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>" for key, value in facts(run)
    )
    return f"""<header>
<h1>{escape(name)}</h1>
<p>{escape(about)}</p>
<progress value="{reached}" max="{max(planned, reached)}">{reached} of {planned}</progress>
<dl class="facts">{"".join(cells)}</dl>
</header>"""


def _samples(run: Run) -> str:
    if not run.grids:
        text = '<p class="soft">No samples have been drawn yet.</p>'
        return f"<section><h2>Samples</h2>{text}</section>"
    newest = _figure(run, *run.grids[-1], MAX_WIDTH)
    strip = ""
    if len(run.grids) > 1:
        chosen = pictures.evenly(run.grids, MAX_STRIP)
        figures = "".join(_figure(run, *grid, THUMBNAIL) for grid in chosen)
        strip = f"""<div class="strip">{figures}</div>
<p class="soft">All rounds use the same noise.</p>"""
    return f"""<section>
<h2>Samples</h2>
<div class="newest">{newest}</div>
{strip}
</section>"""


def _figure(run: Run, t: int, path: Path, max_width: int) -> str:
    return f"<figure>{_image(run, t, path, max_width)}<figcaption>round {t:,}</figcaption></figure>"


def _image(run: Run, t: int, path: Path, max_width: int) -> str:
    picture = pictures.load(path, max_width)
    if picture is None:
        return f'<div class="damaged soft">{escape(path.name)} is damaged</div>'
    kind = "plot" if run.is_points else "pixels"
    scale = 1
    if max_width == MAX_WIDTH and kind == "pixels":
        # Scale by a whole number, so that all pixels have the same size.
        scale = max(1, LARGE // max(picture.width, picture.height))
    size = f'width="{picture.width * scale}" height="{picture.height * scale}"'
    return f'<img class="{kind}" src="{picture.uri}" {size} alt="samples of round {t}">'


def _curves(run: Run) -> str:
    curves = run.rounds.curves
    if not curves:
        return ""
    panels = "".join(
        f"<figure><h3>{escape(tables.readable(name))}</h3>{plots.curve_svg(name, curve)}</figure>"
        for name, curve in curves.items()
    )
    legend = ""
    if any(plots.is_banded(curve) for curve in curves.values()):
        legend = "Thick: mean over the members. Dark band: the middle 50 %; light band: 90 %."
    elif run.num_members > 1:
        legend = "Thick: mean over the members. Thin: each member."
    stride = max(curve.stride for curve in curves.values())
    if stride > 1:
        legend += f" Each point is the mean of up to {stride:,} rounds."
    return f"""<section><h2>Training</h2>
<div class="panels">{panels}</div>
<p class="soft">{legend}</p></section>"""


def _next_steps(run: Run) -> str:
    planned = run.setting("run", "rounds")
    rounds = planned if run.reached < planned else 2 * run.reached
    has_labels = run.is_by_class or run.settings.get("networks", {}).get("conditional", False)
    labels = "--label all --n 10" if has_labels else "--n 64"
    folder = shlex.quote(str(run.folder))
    resume = f"remuda resume {folder} --rounds {rounds}"
    sample = f"remuda sample {folder} {labels} --out grid.png"
    python = f"import remuda\n\nimages = remuda.load({str(run.folder)!r}).sample(16)"
    texts = (f"{resume}\n{sample}", python)
    blocks = "".join(f'<pre class="commands">{escape(text)}</pre>' for text in texts)
    return f"<section><h2>Resume and sample</h2>{blocks}</section>"


def _details(run: Run) -> str:
    blocks = [("Configuration", run.reader.settings_text)]
    if run.environments:
        blocks.append(("Environment", json.dumps(run.environments, indent=1, ensure_ascii=False)))
    return "\n".join(
        f"<details><summary>{title}</summary><pre>{escape(text)}</pre></details>"
        for title, text in blocks
    )
