"""Cells on a torus: who is whose neighbour, as index tables.

A cell's number is row * width + column. A neighbourhood begins with the cell itself; on a small torus, where several
directions lead to the same cell, it is listed once, and the table is as wide as the widest neighbourhood of the grid,
which all cells share.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from remuda.errors import UserError

Offsets = tuple[tuple[int, int], ...]  # (rows down, columns right), without the cell itself

NEIGHBOURHOODS: Mapping[str, Offsets] = {
    "von-neumann": ((0, -1), (-1, 0), (0, 1), (1, 0)),  # west, north, east, south: the paper's five cells
    "moore": ((0, -1), (-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1)),
    "ring": (),  # the cells before and after it, in the order of their numbers
    "none": (),
}


def neighbourhoods(height: int, width: int, kind: str) -> Tensor:
    """(cells, s): every cell's neighbourhood, itself first; each link goes both ways, and no cell stands twice."""
    if height < 1 or width < 1:
        raise UserError(f"a grid needs at least one row and one column, not {height}x{width}")
    if kind not in NEIGHBOURHOODS:
        raise UserError(f"there is no neighbourhood {kind!r}: known are {', '.join(NEIGHBOURHOODS)}")
    rows = []
    for cell in range(height * width):
        row, column = divmod(cell, width)
        around = [((row + down) % height) * width + (column + right) % width for down, right in NEIGHBOURHOODS[kind]]
        if kind == "ring":
            around = [(cell - 1) % (height * width), (cell + 1) % (height * width)]
        rows.append(list(dict.fromkeys([cell, *around])))
    return torch.tensor(rows)
