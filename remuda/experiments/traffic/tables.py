"""Print tables II, III and IV of the MD-GAN paper for a setting, and the whole run's traffic.

Where the paper's tables and text disagree, the actual formula follows the printed one.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from remuda.experiments.traffic.figure import describe_crossings
from remuda.experiments.traffic.setting import FLOAT, MIB, Setting, batches_sent, fl_gan, md_gan
from remuda.system import look

PAPER_BATCH_SIZES = (10, 100)  # the columns of table IV
NOTHING = "-"


class Complexity(NamedTuple):
    """A row of table II: floats that are processed or stored, up to a constant."""

    name: str
    fl_formula: str
    fl_gan: float
    md_formula: str
    md_gan: float


class Communication(NamedTuple):
    """A row of table III: bytes, or numbers if ``counts`` is true. None means no message."""

    name: str
    counts: bool
    fl_formula: str
    fl_gan: int | None
    printed: str  # MD-GAN's formula in the paper
    md_formula: str  # MD-GAN's formula for the bytes that are sent
    md_gan: int | None


def complexities(setting: Setting) -> list[Complexity]:
    """Return the rows of table II."""
    w, theta, d = setting.generator_size, setting.discriminator_size, setting.image_size
    n, b, k = setting.num_workers, setting.batch_size, setting.num_fake_batches
    updates = setting.iterations * b
    server = b * (d * n + k * w)
    averages = setting.iterations / setting.period
    return [
        Complexity(
            "computation C",
            "IbN(|w|+|θ|)/(mE)",
            averages * n * (w + theta),
            "Ib(dN+k|w|)",
            setting.iterations * server,
        ),
        Complexity("memory C", "N(|w|+|θ|)", n * (w + theta), "b(dN+k|w|)", server),
        Complexity("computation W", "Ib(|w|+|θ|)", updates * (w + theta), "Ib|θ|", updates * theta),
        Complexity("memory W", "|w|+|θ|", w + theta, "|θ|", theta),
    ]


def communications(setting: Setting) -> list[Communication]:
    """Return the rows of table III."""
    fl, md = fl_gan(setting), md_gan(setting)
    n, sent = setting.num_workers, "bd" if batches_sent(setting) == 1 else "2bd"
    across, swaps = (md.across, md.num_swaps) if md.across else (None, None)
    rate = "Ib/(mE)"
    swapped, swap_rate = ("θ", rate) if md.across else (NOTHING, NOTHING)
    return [
        Communication("C → W (C)", False, "N(θ+w)", n * fl.down, "bdN", f"{sent}N", n * md.down),
        Communication("C → W (W)", False, "θ+w", fl.down, "bd", sent, md.down),
        Communication("W → C (W)", False, "θ+w", fl.up, "bd", "bd", md.up),
        Communication("W → C (C)", False, "N(θ+w)", n * fl.up, "bdN", "bdN", n * md.up),
        Communication("number of C ↔ W", True, rate, fl.num_exchanges, "I", "I", md.num_exchanges),
        Communication("W → W (W)", False, NOTHING, None, "θ", swapped, across),
        Communication("number of W ↔ W", True, NOTHING, None, rate, swap_rate, swaps),
    ]


def totals(setting: Setting) -> list[tuple[str, int, int]]:
    """Return the bytes that FL-GAN and MD-GAN send in each direction in the whole run."""
    fl, md = fl_gan(setting), md_gan(setting)
    return [
        ("C → W in total", fl.total_down, md.total_down),
        ("W → C in total", fl.total_up, md.total_up),
        ("W → W in total", fl.total_across, md.total_across),
        ("total", fl.total, md.total),
    ]


def describe(setting: Setting) -> str:
    """Return one paragraph with the values of the symbols in the tables."""
    w, theta, d = setting.generator_size, setting.discriminator_size, setting.image_size
    swap = "" if setting.swaps else ", without swaps"
    return (
        f"|w| = {w:,} ({mib(FLOAT * w)} MiB), |θ| = {theta:,} ({mib(FLOAT * theta)} MiB), "
        f"d = {d:,} ({FLOAT * d:,} bytes); "
        f"N = {setting.num_workers}, m = {setting.images_per_worker:,.6g}, "
        f"b = {setting.batch_size}, k = {setting.num_fake_batches}, "
        f"E = {setting.epochs} ({setting.period:,} iterations{swap}), I = {setting.iterations:,}"
    )


def legend(setting: Setting) -> list[tuple[str, str, str]]:
    """Return every letter in the tables, with its value here and its meaning."""
    w, theta, d = setting.generator_size, setting.discriminator_size, setting.image_size
    period = f"{setting.period:,} iterations" if setting.swaps else "without swaps"
    return [
        ("C", "", "the central server"),
        ("W", "", "a worker; (C) and (W): at the server, at one worker"),
        ("N", f"{setting.num_workers:,}", "workers"),
        ("m", f"{setting.images_per_worker:,.6g}", "images of a worker"),
        ("b", f"{setting.batch_size:,}", "batch size"),
        ("k", f"{setting.num_fake_batches:,}", "generated batches of an iteration"),
        ("I", f"{setting.iterations:,}", "iterations of the whole run"),
        ("E", f"{setting.epochs}", f"local epochs between two averages or swaps ({period})"),
        ("d", f"{d:,}", f"numbers of an image ({FLOAT * d:,} bytes)"),
        ("w, |w|", f"{w:,}", f"parameters of a generator ({mib(FLOAT * w)} MiB)"),
        ("θ, |θ|", f"{theta:,}", f"parameters of a discriminator ({mib(FLOAT * theta)} MiB)"),
    ]


def _legend(setting: Setting) -> Table:
    table = look.table("letter", "here", "meaning", right=["here"], title="\nLetters")
    for row in legend(setting):
        table.add_row(*row)
    return table


def print_tables(setting: Setting, console: Console, batch_sizes: Sequence[int] = ()) -> None:
    """Print all tables, the crossing batch sizes and the notes.

    Table IV has columns for the setting's batch size and for ``batch_sizes``. If these are empty,
    it uses the paper's batch sizes. If messages are compressed, a fifth table compares their sizes.
    """
    sizes = sorted({setting.batch_size, *(batch_sizes or PAPER_BATCH_SIZES)})
    plain = setting.uncompressed
    for table in (_table_2(plain), _table_3(plain), _table_4(plain, sizes)):
        console.print(table)
    if {setting.down.codec, setting.up.codec, setting.across.codec} != {"none"}:
        console.print(_table_of_compression(setting))
    console.print(_legend(plain))
    for line in ("", *describe_crossings(plain), *notes(plain)):
        look.say(console, line)


def notes(setting: Setting) -> list[str]:
    """Return sentences that explain how the tables differ from the paper's."""
    if batches_sent(setting) == 1:
        sent = "With k = 1, a worker uses one batch for both training and feedback: bd."
    else:
        sent = (
            "Each worker receives two batches: 2bd, as in the paper's text and its table IV. Its "
            "table III has bd."
        )
    lines = [f"{sent} The feedback is bd, although table IV prints 2bd."]
    if setting.steps_per_epoch:
        lines.append(
            f"An epoch is {setting.steps_per_epoch:,} iterations here, not m/b, so Ib/(mE) means "
            f"I / {setting.period:,}."
        )
    lines.append(
        "The tables count parameters and images, with all members present. They leave out running "
        "statistics, dropout streams, the optimizer's state, moving averages, and the outputs for "
        "strategy.forgive, if they are sent."
    )
    return lines


def mib(num_bytes: int) -> str:
    """Format bytes as MiB with three digits, as in most of table IV; round large numbers."""
    value = num_bytes / MIB
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _table_2(setting: Setting) -> Table:
    title = "II: floats processed and stored, up to a constant"
    table = _table(title, "", "FL-GAN", "", "MD-GAN", "", "FL-GAN / MD-GAN")
    for row in complexities(setting):
        fl, md, ratio = (f"{x:.3g}" for x in (row.fl_gan, row.md_gan, row.fl_gan / row.md_gan))
        table.add_row(row.name, row.fl_formula, fl, row.md_formula, md, ratio)
    return table


def _table_3(setting: Setting) -> Table:
    table = _table("III: bytes per communication", "", "FL-GAN", "", "MD-GAN, printed", "sent", "")
    for row in communications(setting):
        fl, md = _whole(row.fl_gan), _whole(row.md_gan)
        table.add_row(row.name, row.fl_formula, fl, row.printed, row.md_formula, md)
    return table


def _table_4(setting: Setting, batch_sizes: Sequence[int]) -> Table:
    columns = [replace(setting, batch_size=b) for b in batch_sizes]
    headers = [f"{method} b = {b:,}" for method in ("FL-GAN", "MD-GAN") for b in batch_sizes]
    table = _table("IV: the same in MiB (the paper's MB), and the whole run", "", *headers)
    for rows in zip(*map(communications, columns), strict=True):
        show = _whole if rows[0].counts else _amount
        table.add_row(
            rows[0].name, *(show(row.fl_gan) for row in rows), *(show(row.md_gan) for row in rows)
        )
    table.add_row()
    for rows in zip(*map(totals, columns), strict=True):
        table.add_row(rows[0][0], *(mib(fl) for _, fl, _ in rows), *(mib(md) for _, _, md in rows))
    return table


def compressions(setting: Setting) -> list[tuple[str, int, int, int, int]]:
    """Return bytes per message and of the whole run, by row.

    The numbers are those of FL-GAN, without and with compression, then those of MD-GAN.
    """
    plain = setting.uncompressed
    columns = fl_gan(plain), fl_gan(setting), md_gan(plain), md_gan(setting)
    rows = {"C → W (W)": "down", "W → C (W)": "up", "W → W (W)": "across", "total": "total"}
    return [(name, *(getattr(column, part) for column in columns)) for name, part in rows.items()]


def _table_of_compression(setting: Setting) -> Table:
    codecs = f"down {setting.down.codec}, up {setting.up.codec}, across {setting.across.codec}"
    method = "bytes", "compressed", "fewer"
    columns = [f"{name} {column}" for name in ("FL-GAN", "MD-GAN") for column in method]
    table = _table(f"Compression: {codecs}", "", *columns)
    for name, *sizes in compressions(setting):
        cells = []
        for before, after in (sizes[:2], sizes[2:]):
            ratio = f"{before / after:.2f}x" if after else NOTHING
            cells += [f"{before:,}", f"{after:,}", ratio]
        table.add_row(name, *cells)
    return table


def _table(title: str, name: str, *columns: str) -> Table:
    return look.table(name, *columns, right=True, title=f"\n{title}")


def _whole(number: int | None) -> str:
    return NOTHING if number is None else f"{number:,}"


def _amount(num_bytes: int | None) -> str:
    return NOTHING if num_bytes is None else mib(num_bytes)
