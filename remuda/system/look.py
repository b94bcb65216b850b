"""Define the look of all commands: tables, numbers, and lines with a bar.

Colours and bold text appear only on a terminal, and colours not with $NO_COLOR; rich sees to both.
Nothing depends on colours: the done part of a bar has a heavier stroke than the rest.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

ERROR = "red"
DONE, REST = "cyan", "dim"  # the two parts of a bar
LONGEST_BAR = 40  # columns
SHORTEST_BAR = 6  # columns that a bar keeps if other texts compete with it
GAP = "  "  # between texts in a line


def table(*columns: str, right: Collection[str] | bool = (), title: str = "") -> Table:
    """Return an empty table. Columns of numbers are on the right: these, or all but the first."""
    made = Table(box=None, pad_edge=False, title=title or None, title_justify="left")
    made.title_style = "bold"
    for i, column in enumerate(columns):
        is_right = i > 0 if isinstance(right, bool) and right else column in (right or ())
        made.add_column(column, justify="right" if is_right else "left")
    return made


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print plain text, without breaking long lines such as paths."""
    shown = visible(text)
    console.print(shown, style=style, highlight=False, markup=False, emoji=False, soft_wrap=True)


def visible(text: str) -> str:
    """Replace control characters: in names from outside, they could change what a terminal shows.

    Line breaks and tabs stay.
    """
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text)


def number(value: float) -> str:
    """Format a score or another measured value."""
    return f"{value:.4g}"


def loss(value: float) -> str:
    """Format a loss with three decimals; small ones in scientific notation."""
    return f"{value:.3f}" if abs(value) >= 0.01 or value == 0 else f"{value:.1e}"


def memory(num_bytes: float) -> str:
    """Format an amount of memory, such as ``504 MiB`` or ``1.2 GiB``."""
    mebibytes = num_bytes / 2**20
    return f"{mebibytes:,.0f} MiB" if mebibytes < 1000 else f"{mebibytes / 1024:,.1f} GiB"


def time(seconds: float) -> str:
    """Format a time in whole seconds and its two largest units, such as ``3 min 20 s``."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours == 0:
        return f"{minutes} min {rest} s"
    days, hours = divmod(hours, 24)
    return f"{days:,} d {hours} h" if days else f"{hours} h {minutes} min"


@dataclass(frozen=True)
class BarLine:
    """A line with a bar. It always shows the head, the bar and the tail, whatever the width.

    If the line is too narrow for all further texts, the last ones are missing.
    """

    head: str  # such as "round 3/20"
    done: float  # 0..1
    tail: str  # such as "20 s left"
    more: Sequence[str] = field(default_factory=tuple)  # the most important first

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text(options.max_width, options.ascii_only)

    def text(self, width: int, ascii_only: bool = False) -> Text:
        """Return the line in this many columns."""
        head, tail = self._ends(width)
        room = width - cell_len(head) - cell_len(tail) - 2
        shown = ""
        for text in self.more:
            longer = f"{shown}{GAP}{text}"
            if room - cell_len(longer) < SHORTEST_BAR:
                break
            shown = longer
        length = max(1, min(LONGEST_BAR, room - cell_len(shown)))
        heavy, light = ("#", "-") if ascii_only else ("━", "─")
        filled = round(length * min(1.0, max(0.0, self.done)))
        bar = ((heavy * filled, DONE), (light * (length - filled), REST))
        line = Text.assemble(head, " ", *bar, " ", tail, shown, no_wrap=True, overflow="crop")
        line.truncate(width)
        return line

    def _ends(self, width: int) -> tuple[str, str]:
        """Return the head and the tail, as short as a narrow line needs them."""
        head, tail = self.head, self.tail
        if cell_len(head) + cell_len(tail) + 2 + SHORTEST_BAR > width:
            tail = re.sub(r"(^about | left$)", "", tail)
        if cell_len(head) + cell_len(tail) + 5 > width:
            head = head.removeprefix("round ")
        longest = width - cell_len(tail) - 5
        if cell_len(head) > longest > 0:
            head = set_cell_size(head, longest - 1) + ("." if head.isascii() else "…")
        return head, tail
