"""Draw figure 2 of the MD-GAN paper: bytes that workers and server receive, by batch size.

The paper's text counts "worker-server and worker-worker communications during an iteration". In its
busiest iteration, a worker of MD-GAN therefore receives generated batches and a discriminator. A
worker of FL-GAN receives both networks.
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
STYLES: dict[Place, str] = {"worker": "-", "server": ":"}  # as in the paper
LARGEST_BATCH = 10_000  # the end of the axis, unless lines cross beyond it


def crossing_batch(setting: Setting, place: Place = "worker", swap: bool = True) -> float:
    """Return the batch size above which MD-GAN sends a place more bytes per iteration than FL-GAN.

    ``swap`` selects an iteration in which discriminators are swapped; it matters only for workers.
    With two batches per worker, the size is |w| / 2d in an iteration with a swap, and
    (|w| + |theta|) / 2d in the others.
    """
    image = FLOAT * setting.image_size
    if place == "server":
        return fl_gan(setting).up / image
    across = md_gan(setting).across if swap else 0
    return (fl_gan(setting).down - across) / (batches_sent(setting) * image)


def describe_crossings(setting: Setting) -> list[str]:
    """Describe figure 2 in sentences."""
    swap, other, server = crossings(setting)
    workers = f"b = {other:,.0f}"
    if swap != other:
        workers = f"b = {swap:,.0f} in an iteration with a swap, and {workers} in the others"
    return [
        f"A worker receives less than with FL-GAN up to about {workers}; the server receives less "
        f"up to about b = {server:,.0f}.",
        f"This compares one iteration of MD-GAN with one average of FL-GAN. FL-GAN averages once "
        f"every {setting.period:,} iterations.",
    ]


def crossings(setting: Setting) -> tuple[float, float, float]:
    """Return the crossing batch sizes: of a worker with and without a swap, and of the server."""
    return (
        crossing_batch(setting),
        crossing_batch(setting, swap=False),
        crossing_batch(setting, "server"),
    )


def draw(setting: Setting, path: Path) -> None:
    """Draw the figure and save it in the format that the suffix of ``path`` selects."""
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"cannot draw {path}: its name must end in {' or '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise UserError(
            f"cannot write {path}: the folder {path.parent} does not exist. Create it, or choose "
            "another --out"
        )
    import matplotlib
    from matplotlib.figure import Figure  # slow to import, and used only here

    # A fixed salt makes SVG files of the same setting identical.
    style: dict[Any, Any] = {"svg.hashsalt": "traffic", "font.size": 10}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        axes = figure.add_subplot()
        _lines(axes, setting)
        for place in STYLES:
            _mark(axes, setting, place)
        axes.set(xscale="log", yscale="log")
        axes.set(xlabel="batch size b", ylabel="ingress per iteration, MiB")
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
            heights = [y / MIB for y in ingress]
            axes.plot(sizes, heights, line, color=COLOURS[method], label=label, linewidth=1.8)


def _mark(axes: Any, setting: Setting, place: Place) -> None:
    """Mark the point where the two lines of a place cross, if it is inside the diagram."""
    x, messages = crossing_batch(setting, place), fl_gan(setting)
    if x < 1:
        return
    y = (messages.worker_ingress if place == "worker" else messages.server_ingress) / MIB
    axes.plot([x], [y], "o", color="black", markersize=5, zorder=3)
    # Place the label away from the other lines.
    offset, side = ((7, -13), "left") if place == "worker" else ((-7, 6), "right")
    axes.annotate(
        f"b = {x:,.0f}", (x, y), xytext=offset, textcoords="offset points", ha=side, fontsize=9
    )
