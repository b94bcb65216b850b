"""Cells on a torus: who is whose neighbour, as index tables.

A cell's number is row * width + column. A neighbourhood begins with the cell itself; on a small torus, where several
directions lead to the same cell, it is listed once, and the table is as wide as the widest neighbourhood of the grid,
which all cells share.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from remuda.errors import UserError

Offsets = tuple[tuple[int, int], ...]  # (rows down, columns right), without the cell itself

NEIGHBOURHOODS: Mapping[str, Offsets] = {
    "von-neumann": (
        (0, -1),
        (-1, 0),
        (0, 1),
        (1, 0),
    ),  # west, north, east, south: the paper's five cells
    "moore": ((0, -1), (-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1)),
    "ring": (),  # the cells before and after it, in the order of their numbers
    "none": (),
}


def neighbourhoods(height: int, width: int, kind: str) -> Tensor:
    """(cells, s): every cell's neighbourhood, itself first; each link goes both ways, and no cell stands twice."""
    if height < 1 or width < 1:
        raise UserError(f"a grid needs at least one row and one column, not {height}x{width}")
    if kind not in NEIGHBOURHOODS:
        raise UserError(
            f"there is no neighbourhood {kind!r}: known are {', '.join(NEIGHBOURHOODS)}"
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
    """Neighbourhoods of one width, though cells have left or the kind of neighbourhood has changed."""

    table: Tensor  # (cells, s): ids, itself first; where nobody is, the cell itself
    present: Tensor  # (cells, s): where somebody is


def links(table: Tensor, alive: Tensor, num_slots: int) -> Links:
    """A table of neighbourhoods without the cells that have left; who has left is alone with itself."""
    cells = torch.arange(len(table))[:, None]
    table = torch.cat([table, cells.expand(-1, num_slots - table.shape[1])], 1)
    present = alive[table] & alive[:, None]
    present[:, 1:] &= table[:, 1:] != cells  # where nobody is
    present[:, 0] = True
    return Links(torch.where(present, table, cells), present)


def read_schedule(text: str) -> dict[int, str]:
    """Neighbourhoods by the round from which they hold; text is such as "51: moore, 101: none"."""
    schedule: dict[int, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        start, colon, kind = (part.strip() for part in entry.partition(":"))
        if not (colon and start.isdecimal() and int(start) >= 1 and kind in NEIGHBOURHOODS):
            raise UserError(
                f"{entry!r} in a schedule of neighbourhoods is not a round and one of {', '.join(NEIGHBOURHOODS)}: "
                'write "51: moore, 101: none"'
            )
        schedule[int(start)] = kind
    return schedule
