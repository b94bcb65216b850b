"""Build index tables of the neighbourhoods of cells on a torus.

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
    "ring": (),  # the cells with the previous and the next number
    "none": (),
}


def neighbourhoods(height: int, width: int, kind: str) -> Tensor:
    """Return the neighbourhood of every cell, with the cell itself first, (cells, s).

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
    """Neighbourhoods of a fixed width, for any kind and even after cells have left."""

    table: Tensor  # (cells, s): ids; the first slot and empty slots contain the cell itself
    present: Tensor  # (cells, s): whether the slot contains a living cell


def links(table: Tensor, alive: Tensor, num_slots: int) -> Links:
    """Remove cells that have left from all neighbourhoods; their own contain only themselves."""
    cells = torch.arange(len(table))[:, None]
    table = torch.cat([table, cells.expand(-1, num_slots - table.shape[1])], 1)
    present = alive[table] & alive[:, None]
    present[:, 1:] &= table[:, 1:] != cells  # empty slots
    present[:, 0] = True
    return Links(torch.where(present, table, cells), present)


def scheduled_links(
    height: int, width: int, kinds: Mapping[int, str], alive: Tensor, t: int
) -> Links:
    """Return the links of round t; ``kinds`` maps first rounds to neighbourhoods.

    The links of all rounds are as wide as the widest neighbourhood.
    """
    tables = {start: neighbourhoods(height, width, kind) for start, kind in kinds.items()}
    current = tables[max(start for start in tables if start <= t)]
    return links(current, alive, max(table.shape[1] for table in tables.values()))


def read_schedule(text: str) -> dict[int, str]:
    """Parse a schedule such as "51: moore, 101: none"; return neighbourhoods by first round."""
    schedule: dict[int, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        start, colon, kind = (part.strip() for part in entry.partition(":"))
        if not (colon and start.isdecimal() and int(start) >= 1 and kind in NEIGHBOURHOODS):
            raise UserError(
                f"cannot read {entry!r} in the neighbourhood schedule: write each entry as ROUND: "
                'NAME, for example "51: moore, 101: none"; NAME is one of '
                f"{', '.join(NEIGHBOURHOODS)}"
            )
        schedule[int(start)] = kind
    return schedule
