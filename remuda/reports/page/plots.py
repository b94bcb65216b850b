"""Draw a metric's curve as inline SVG in the colours of the page."""

import io
import re
from typing import Any

from remuda.reports.page.curves import Curve

MAX_LINES = 50  # members; for more members, bands are clearer than lines
MAX_VECTOR_VALUES = 20_000  # above this, thin lines are rasterized to keep the page small
FEW_POINTS = 12  # curves with at most this many points get markers, to show single points
INK = "#010203"  # stands for the page's text colour until the SVG is written
COLOUR = "#3f8fd8"  # visible on white and on black
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def curve_svg(
    name: str, curve: Curve, *, band: Curve | None = None, floor: float | None = None
) -> str:
    """Draw a thin line for each member or bands of quantiles, and a thick line for the mean.

    ``band`` has two values per point, the lower and the upper edge of a band. ``floor`` is the
    height of a dashed line.
    """
    import matplotlib  # slow to import, and only needed at the end of a run
    from matplotlib.figure import Figure

    with matplotlib.rc_context(style(name)):
        figure = Figure(figsize=(5.4, 2.9), layout="constrained")
        axes = figure.add_subplot()
        if band is not None:
            axes.fill_between(
                band.rounds, band.member(0), band.member(1), color=COLOUR, alpha=0.25, linewidth=0
            )
        if floor is not None:
            axes.axhline(floor, color=COLOUR, linewidth=1.4, linestyle="--")
        _draw(axes, curve)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, dpi=200, metadata=NO_METADATA)
    return inline(buffer.getvalue())


def style(name: str) -> dict[Any, Any]:
    """Return matplotlib's settings for the panel with this name."""
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": name,  # makes pages reproducible, and ids different between panels
        "font.size": 9,
        **{f"{key}.color": INK for key in ("text", "xtick", "ytick")},
        **{f"axes.{key}color": INK for key in ("edge", "label")},
    }


def is_banded(curve: Curve) -> bool:
    """Return whether the curve is drawn with bands instead of a line per member."""
    return curve.width > MAX_LINES or curve.is_ragged


def _draw(axes: Any, curve: Curve) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    x = curve.rounds
    marker = "o" if len(x) <= FEW_POINTS else ""
    if is_banded(curve):
        for low, high in ((0.05, 0.95), (0.25, 0.75)):
            band = curve.quantiles(low), curve.quantiles(high)
            axes.fill_between(x, *band, color=COLOUR, alpha=0.25, linewidth=0)
    elif curve.width > 1:
        is_heavy = len(x) * curve.width > MAX_VECTOR_VALUES
        for i in range(curve.width):
            axes.plot(
                x, curve.member(i), color=COLOUR, alpha=0.6, linewidth=0.8, rasterized=is_heavy
            )
    axes.plot(x, curve.means(), color=INK, linewidth=1.8, marker=marker, markersize=3.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=INK, alpha=0.15, linewidth=0.6)
    if len(x) == 1:
        axes.set_xlim(x[0] - 0.5, x[0] + 0.5)
    axes.margins(x=0.02)
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def inline(svg: str) -> str:
    """Return only the SVG element, which takes its text colour and its width from the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="[\w.]+_\d+"', "", svg)  # ids of groups, which are the same in all panels
    for name in ("height", "width"):
        svg = re.sub(rf'(<svg[^>]*?) {name}="[^"]*"', r"\1", svg)
    return svg.replace(INK, "currentColor")
