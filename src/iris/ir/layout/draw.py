"""Drawing a layout: a table of the tile's elements, each cell naming who holds it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product, zip_longest

import numpy as np

from iris.ir.layout.linear import SIMDGROUP, LinearLayout, check_hardware

_MAX_SIDE = 64  # rows and columns shown
_MAX_SLICES = 8  # of leading axes
_LINE = 16  # elements of a one-dimensional tile in a row

_Holder = tuple[int, int, int]  # register, lane, simdgroup


def draw(layout: LinearLayout) -> str:
    """A text table: `T5:1` is lane (thread) 5, register 1; `S2T5:1` that of simdgroup 2.

    Replicas share a cell (`T0,16:1`, `T0-31:0`); `-` is an element that nobody holds.

    >>> print(draw(LinearLayout.of((2, 4), register=[(0, 1)], lane=[(1, 0), (0, 2)], simdgroup=[])))
    linear<2x4, register=[(0,1)], lane=[(1,0), (0,2)], simdgroup=[]>
         0    1    2    3
    0 T0:0 T0:1 T2:0 T2:1
    1 T1:0 T1:1 T3:0 T3:1
    """
    check_hardware(layout)
    cells = _cells(layout)
    lines = [str(layout)]
    if layout.rank == 1:
        width = min(_LINE, layout.num_elements)
        rows = [cells[i : i + width] for i in range(0, len(cells), width)]
        return "\n".join(lines + _table(rows, width))
    *leading, height, width = layout.shape
    rows = [cells[i : i + width] for i in range(0, len(cells), width)]
    for number, index in enumerate(product(*map(range, leading))):
        if number == _MAX_SLICES:
            lines.append("…")
            break
        if index:
            lines.append(f"[{', '.join(map(str, index))}, :, :]")
        lines += _table(rows[number * height : (number + 1) * height], 1)
    return "\n".join(lines)


def _cells(layout: LinearLayout) -> list[str]:
    """The text of each element, in row-major order."""
    holders: list[list[_Holder]] = [[] for _ in range(layout.num_elements)]
    table = layout.table()
    for location in np.ndindex(*table.shape):
        holders[table[location]].append(location)
    name_simdgroup = layout.size(SIMDGROUP) > 1
    return [_cell(held, name_simdgroup) for held in holders]


def _cell(holders: Sequence[_Holder], name_simdgroup: bool) -> str:
    if not holders:
        return "-"
    registers, lanes, simdgroups = (sorted(set(axis)) for axis in zip(*holders, strict=True))
    if len(registers) * len(lanes) * len(simdgroups) == len(holders):
        where = f"S{_numbers(simdgroups)}" if name_simdgroup else ""
        return f"{where}T{_numbers(lanes)}:{_numbers(registers)}"
    shown = [_cell([holder], name_simdgroup) for holder in holders[:2]]
    return "|".join(shown) + (f"|…({len(holders)})" if len(holders) > 2 else "")


def _numbers(numbers: Sequence[int]) -> str:
    """0,4 or 0-31 or, when there are many pieces, 0,2,…(16)."""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    if len(starts) > 4:
        return f"{numbers[0]},{numbers[1]},…({len(numbers)})"
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _table(rows: Sequence[Sequence[str]], row_step: int) -> list[str]:
    """Aligned rows under a header of column numbers; row i is labelled i * row_step."""
    columns = [str(column) for column in range(len(rows[0]))]
    lines = [["", *columns], *([str(i * row_step), *row] for i, row in enumerate(rows))]
    if len(columns) > _MAX_SIDE:
        lines = [[*line[: 1 + _MAX_SIDE], "…"] for line in lines]
    if len(rows) > _MAX_SIDE:
        lines = [*lines[: 1 + _MAX_SIDE], ["…"]]
    widths = [max(map(len, column)) for column in zip_longest(*lines, fillvalue="")]
    return [
        " ".join(text.rjust(width) for text, width in zip(line, widths, strict=False)).rstrip()
        for line in lines
    ]
