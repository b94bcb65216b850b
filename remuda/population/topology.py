"""Cells on a torus, and their neighbourhoods as index tables.

A cell's number is row * width + column. A neighbourhood starts with the cell itself. On a small
torus, where several directions lead to the same cell, that cell is listed once. All cells of a grid
have neighbourhoods of the same size.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from remuda.errors import UserError

Offsets = tuple[tuple[int, int], ...]  # (rows down, columns right), without the cell itself

NEIGHBOURHOODS: Mapping[str, Offsets] = {
    # West, north, east, south: the paper's five cells.
    "von-neumann": ((0, -1), (-1, 0), (0, 1), (1, 0)),
    "moore": ((0, -1), (-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1)),
    "ring": (),  # the cells with the numbers before and after
    "none": (),
}


def neighbourhoods(height: int, width: int, kind: str) -> Tensor:
    """Return every cell's neighbourhood, itself first, (cells, s).

    Links go both ways, and no cell is listed twice in a neighbourhood.
    """
    if height < 1 or width < 1:
        raise UserError(f"a grid needs at least one row and one column, not {height}x{width}")
    if kind not in NEIGHBOURHOODS:
        raise UserError(
            f"neighbourhood {kind!r} is unknown: choose one of {', '.join(NEIGHBOURHOODS)}"
        )
    rows = []
    for cell in range(height * width):
        row, column = divmod(cell, width)
        around = [
            ((row + down) % height) * width + (column + right) % width
            for down, right in NEIGHBOURHOODS[kind]
        ]
        if kind == "ring":
            around = [(cell - 1) % (height * width), (cell + 1) % (height * width)]
        rows.append(list(dict.fromkeys([cell, *around])))
    return torch.tensor(rows)


class Links(NamedTuple):
    """Neighbourhoods of a fixed width, whichever cells have left and whatever their kind."""

    table: Tensor  # (cells, s): ids, the cell itself first and in empty slots
    present: Tensor  # (cells, s): whether the slot holds a living cell


def links(table: Tensor, alive: Tensor, num_slots: int) -> Links:
    """Return neighbourhoods without the cells that have left; those cells keep only themselves."""
    cells = torch.arange(len(table))[:, None]
    table = torch.cat([table, cells.expand(-1, num_slots - table.shape[1])], 1)
    present = alive[table] & alive[:, None]
    present[:, 1:] &= table[:, 1:] != cells  # empty slots
    present[:, 0] = True
    return Links(torch.where(present, table, cells), present)


def scheduled_links(
    height: int, width: int, kinds: Mapping[int, str], alive: Tensor, t: int
) -> Links:
    """Return the links of round t; ``kinds`` holds neighbourhoods by their first round.

    All rounds have links of the same width, that of the widest neighbourhood.
    """
    tables = {start: neighbourhoods(height, width, kind) for start, kind in kinds.items()}
    current = tables[max(start for start in tables if start <= t)]
    return links(current, alive, max(table.shape[1] for table in tables.values()))


def read_schedule(text: str) -> dict[int, str]:
    """Parse a schedule such as "51: moore, 101: none" into neighbourhoods by first round."""
    schedule: dict[int, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        start, colon, kind = (part.strip() for part in entry.partition(":"))
        if not (colon and start.isdecimal() and int(start) >= 1 and kind in NEIGHBOURHOODS):
            raise UserError(
                f"{entry!r} in a schedule of neighbourhoods is not a round and one of "
                f'{", ".join(NEIGHBOURHOODS)}: write "51: moore, 101: none"'
            )
        schedule[int(start)] = kind
    return schedule
