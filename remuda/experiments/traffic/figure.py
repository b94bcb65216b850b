"""Figure 2 of the MD-GAN paper: what reaches a worker and the server in an iteration, against the batch size.

The paper's text counts "worker-server and worker-worker communications during an iteration", so that the busiest
iteration of MD-GAN brings a worker its generated batches and a discriminator; FL-GAN's brings both networks.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from remuda.errors import UserError
from remuda.experiments.traffic.setting import FLOAT, MIB, Setting, batches_sent, fl_gan, md_gan

Place = Literal["worker", "server"]
FORMATS = (".png", ".svg")
COLOURS = {"FL-GAN": "#c8622d", "MD-GAN": "#3f8fd8"}
STYLES: dict[Place, str] = {"worker": "-", "server": ":"}  # plain and dotted, as in the paper
LARGEST_BATCH = 10_000  # where the axis ends, or further out if lines cross there


def crossing_batch(setting: Setting, place: Place = "worker", swap: bool = True) -> float:
    """The batch size from which on more bytes reach that place in an iteration of MD-GAN than in one of FL-GAN.

    ``swap`` says whether it is an iteration in which discriminators change places, which concerns workers alone.
    With two batches a worker: |w| / 2d in an iteration with a swap, (|w| + |theta|) / 2d in the others.
    """
    image = FLOAT * setting.image_size
    if place == "server":
        return fl_gan(setting).up / image
    across = md_gan(setting).across if swap else 0
    return (fl_gan(setting).down - across) / (batches_sent(setting) * image)


def describe_crossings(setting: Setting) -> list[str]:
    """Figure 2 in words."""
    swap, other, server = crossings(setting)
    workers = f"b = {other:,.0f}"
    if swap != other:
        workers = f"b = {swap:,.0f} in an iteration with a swap, and {workers} in the others"
    return [
        f"Less reaches a worker than with FL-GAN up to about {workers}; less reaches the server up to about "
        f"b = {server:,.0f}.",
        f"An iteration of MD-GAN is held against an average of FL-GAN, which comes once in {setting.period:,} "
        "iterations.",
    ]


def crossings(setting: Setting) -> tuple[float, float, float]:
    """At a worker with a swap and without, and at the server."""
    return (
        crossing_batch(setting),
        crossing_batch(setting, swap=False),
        crossing_batch(setting, "server"),
    )


def draw(setting: Setting, path: Path) -> None:
    """The figure as a file, whose name says in which format."""
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"{path}: the figure's name must end in {' or '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise UserError(
            f"there is no folder {path.parent} for the figure: make it, or choose another --out"
        )
    import matplotlib
    from matplotlib.figure import Figure  # slow to import, and needed here alone

    style: dict[Any, Any] = {
        "svg.hashsalt": "traffic",
        "font.size": 10,
    }  # the same setting gives the same file
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        axes = figure.add_subplot()
        _lines(axes, setting)
        for place in STYLES:
            _mark(axes, setting, place)
        axes.set(
            xscale="log", yscale="log", xlabel="batch size b", ylabel="ingress in an iteration, MiB"
        )
        axes.grid(which="major", alpha=0.3, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
        figure.savefig(path, dpi=200, metadata=metadata)


def _lines(axes: Any, setting: Setting) -> None:
    last = max(LARGEST_BATCH, 10 ** math.ceil(math.log10(2 * max(crossings(setting)))))
    sizes = sorted({round(last ** (i / 200)) for i in range(201)})
    for place, line in STYLES.items():
        for method, messages in (("FL-GAN", fl_gan), ("MD-GAN", md_gan)):
            each = [messages(replace(setting, batch_size=b)) for b in sizes]
            ingress = [m.worker_ingress if place == "worker" else m.server_ingress for m in each]
            label = f"{method}, {place}"
            axes.plot(
                sizes,
                [y / MIB for y in ingress],
                line,
                color=COLOURS[method],
                label=label,
                linewidth=1.8,
            )


def _mark(axes: Any, setting: Setting, place: Place) -> None:
    """The point where the lines of a place meet, if it is on the axis."""
    x, messages = crossing_batch(setting, place), fl_gan(setting)
    if x < 1:
        return
    y = (messages.worker_ingress if place == "worker" else messages.server_ingress) / MIB
    axes.plot([x], [y], "o", color="black", markersize=5, zorder=3)
    offset, side = (
        ((7, -13), "left") if place == "worker" else ((-7, 6), "right")
    )  # away from the other lines
    axes.annotate(
        f"b = {x:,.0f}", (x, y), xytext=offset, textcoords="offset points", ha=side, fontsize=9
    )
