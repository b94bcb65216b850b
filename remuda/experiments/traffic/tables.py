"""Tables II, III and IV of the MD-GAN paper for a setting, and the whole run's traffic.

Where the paper's tables and text differ, its formula stands beside what is sent here.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from remuda.experiments.traffic.figure import describe_crossings
from remuda.experiments.traffic.setting import FLOAT, MIB, Setting, batches_sent, fl_gan, md_gan

PAPER_BATCH_SIZES = (10, 100)  # the columns of table IV
NOTHING = "-"


class Complexity(NamedTuple):
    """A row of table II: floats that are handled or held, up to a constant."""

    name: str
    fl_formula: str
    fl_gan: float
    md_formula: str
    md_gan: float


class Communication(NamedTuple):
    """A row of table III; amounts are bytes, or a plain number in a row that counts. None: there is no such message."""

    name: str
    counts: bool
    fl_formula: str
    fl_gan: int | None
    printed: str  # MD-GAN's formula in the paper
    md_formula: str  # and what is sent
    md_gan: int | None


def complexities(setting: Setting) -> list[Complexity]:
    """Table II."""
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
    """Table III."""
    fl, md = fl_gan(setting), md_gan(setting)
    n, sent = setting.num_workers, "bd" if batches_sent(setting) == 1 else "2bd"
    across, swaps = (md.across, md.num_swaps) if md.across else (None, None)
    return [
        Communication("C → W (C)", False, "N(θ+w)", n * fl.down, "bdN", f"{sent}N", n * md.down),
        Communication("C → W (W)", False, "θ+w", fl.down, "bd", sent, md.down),
        Communication("W → C (W)", False, "θ+w", fl.up, "bd", "bd", md.up),
        Communication("W → C (C)", False, "N(θ+w)", n * fl.up, "bdN", "bdN", n * md.up),
        Communication(
            "number of C ↔ W", True, "Ib/(mE)", fl.num_exchanges, "I", "I", md.num_exchanges
        ),
        Communication(
            "W → W (W)", False, NOTHING, None, "θ", "θ" if md.across else NOTHING, across
        ),
        Communication(
            "number of W ↔ W",
            True,
            NOTHING,
            None,
            "Ib/(mE)",
            "Ib/(mE)" if md.across else NOTHING,
            swaps,
        ),
    ]


def totals(setting: Setting) -> list[tuple[str, int, int]]:
    """The whole run's bytes by direction: FL-GAN's, MD-GAN's."""
    fl, md = fl_gan(setting), md_gan(setting)
    return [
        ("C → W in all", fl.total_down, md.total_down),
        ("W → C in all", fl.total_up, md.total_up),
        ("W → W in all", fl.total_across, md.total_across),
        ("all", fl.total, md.total),
    ]


def describe(setting: Setting) -> str:
    """The letters of the tables, in one paragraph."""
    w, theta, d = setting.generator_size, setting.discriminator_size, setting.image_size
    swap = "" if setting.swaps else ", without swaps"
    return (
        f"|w| = {w:,} ({mib(FLOAT * w)} MiB), |θ| = {theta:,} ({mib(FLOAT * theta)} MiB), d = {d:,} "
        f"({FLOAT * d:,} bytes); N = {setting.num_workers}, m = {setting.images_per_worker:,.6g}, "
        f"b = {setting.batch_size}, k = {setting.num_fake_batches}, "
        f"E = {setting.epochs} ({setting.period:,} iterations{swap}), I = {setting.iterations:,}"
    )


def print_tables(setting: Setting, console: Console, batch_sizes: Sequence[int] = ()) -> None:
    """All of it; table IV has columns for the setting's batch size and for the given ones, or else for the paper's."""
    sizes = sorted({setting.batch_size, *(batch_sizes or PAPER_BATCH_SIZES)})
    console.print(describe(setting), highlight=False, soft_wrap=True)
    for table in (_table_2(setting), _table_3(setting), _table_4(setting, sizes)):
        console.print(table)
    for line in (*describe_crossings(setting), *notes(setting)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def notes(setting: Setting) -> list[str]:
    """How the tables differ from the paper's, and what they leave out."""
    if batches_sent(setting) == 1:
        sent = "With k = 1 a worker trains on the batch that it judges, which is sent once: bd."
    else:
        sent = "Each worker is sent two batches: 2bd, as in the paper's text and its table IV; its table III says bd."
    lines = [f"{sent} The feedback is bd; table IV prints 2bd for it."]
    if setting.steps_per_epoch:
        lines.append(
            f"An epoch is {setting.steps_per_epoch:,} iterations here, not m/b: Ib/(mE) stands for I / "
            f"{setting.period:,}."
        )
    lines.append(
        "Counted are parameters and images, with all members present. Running statistics and dropout streams, if the "
        "networks have any, and the optimizer's state, if it is to travel too, come on top."
    )
    return lines


def mib(num_bytes: int) -> str:
    """To three digits, like most of table IV; larger numbers to the unit."""
    value = num_bytes / MIB
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _table_2(setting: Setting) -> Table:
    table = _table(
        "II: floats handled and held, up to a constant",
        "",
        "FL-GAN",
        "",
        "MD-GAN",
        "",
        "FL-GAN / MD-GAN",
    )
    for row in complexities(setting):
        ratio = f"{row.fl_gan / row.md_gan:.3g}"
        table.add_row(
            row.name,
            row.fl_formula,
            f"{row.fl_gan:.3g}",
            row.md_formula,
            f"{row.md_gan:.3g}",
            ratio,
        )
    return table


def _table_3(setting: Setting) -> Table:
    table = _table("III: bytes of a communication", "", "FL-GAN", "", "MD-GAN, printed", "sent", "")
    for row in communications(setting):
        table.add_row(
            row.name,
            row.fl_formula,
            _whole(row.fl_gan),
            row.printed,
            row.md_formula,
            _whole(row.md_gan),
        )
    return table


def _table_4(setting: Setting, batch_sizes: Sequence[int]) -> Table:
    columns = [replace(setting, batch_size=b) for b in batch_sizes]
    headers = [f"{method} b = {b:,}" for method in ("FL-GAN", "MD-GAN") for b in batch_sizes]
    table = _table("IV: the same in MiB, which the paper calls MB, and the whole run", "", *headers)
    for rows in zip(*map(communications, columns), strict=True):
        show = _whole if rows[0].counts else _amount
        table.add_row(
            rows[0].name, *(show(row.fl_gan) for row in rows), *(show(row.md_gan) for row in rows)
        )
    table.add_section()
    for rows in zip(*map(totals, columns), strict=True):
        table.add_row(rows[0][0], *(mib(fl) for _, fl, _ in rows), *(mib(md) for _, _, md in rows))
    return table


def _table(title: str, name: str, *columns: str) -> Table:
    table = Table(name, title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _whole(number: int | None) -> str:
    return NOTHING if number is None else f"{number:,}"


def _amount(num_bytes: int | None) -> str:
    return NOTHING if num_bytes is None else mib(num_bytes)
