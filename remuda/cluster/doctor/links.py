"""Report the speed of messages: on a host, between two hosts, or in a table of all hosts."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from remuda.cluster.doctor import probe
from remuda.cluster.doctor.findings import OK, Finding
from remuda.system.text import listed

SLOW = 4.0  # a pair of hosts is reported if another pair is this many times as fast


def links(measured: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Report the latency and the bandwidth of each measured pair."""
    between = [link for link in measured if link["hosts"][0] != link["hosts"][1]]
    for link in measured:
        a, b = link["hosts"]
        if a == b:
            yield from _sentences(link, "on a host")
        elif len(between) == 1:
            yield from _sentences(link, "between hosts")
    if len(between) > 1:
        yield from _table(between, "latency", "µs", lambda link: f"{1e6 * link['latency']:,.1f}")
        yield from _table(between, "bandwidth", "MB/s", lambda link: f"{_rate(link):,.1f}")
        yield from _slow(between)


def _rate(link: dict[str, Any]) -> float:
    """Return the megabytes per second in each direction."""
    return probe.LARGE / link["exchange"] / 1e6


def _sentences(link: dict[str, Any], place: str) -> Iterator[Finding]:
    latency = f"{1e6 * link['latency']:.1f} µs {place}"
    yield Finding(OK, "latency", f"{latency}, a message of {probe.SMALL} bytes")
    rate, size = f"{_rate(link):,.0f} MB/s {place}", probe.LARGE // 1_000_000
    yield Finding(OK, "bandwidth", f"{rate}, each way, {size} MB both ways at once")


def _table(
    between: Sequence[dict[str, Any]], name: str, unit: str, show: Callable[[dict[str, Any]], str]
) -> Iterator[Finding]:
    """Report one number for each pair: a row for each host, a column for each later host."""
    values = {tuple(link["hosts"]): show(link) for link in between}
    rows, columns = (list(dict.fromkeys(pair[side] for pair in values)) for side in (0, 1))
    lines = [[unit, *columns]]
    lines += [[row, *(values.get((row, host), "") for host in columns)] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield Finding(OK, name, "  ".join([first.ljust(widths[0]), *cells]))


def _slow(between: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    best = max(map(_rate, between))
    slow = [" - ".join(link["hosts"]) for link in between if SLOW * _rate(link) < best]
    if slow:
        text = f"{listed(slow)} reach less than a quarter of the fastest pair, {best:,.0f} MB/s, "
        text += "and slow down every round: check their cables and network adapters"
        yield Finding(OK, "bandwidth", text)
