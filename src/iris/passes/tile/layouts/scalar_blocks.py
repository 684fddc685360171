"""The layout of a product that is computed from scalars: blocks of simdgroups, and of lanes."""

from __future__ import annotations

from iris.ir import tile
from iris.ir.layout.linear import LinearLayout, log2
from iris.ir.math import element_type
from iris.ir.metal import VECTOR_BYTES
from iris.passes.tile.layouts.fragments import choose_blocks

# Lanes below each other, and beside each other: few lanes read the same of an operand, and rows of
# 16 bytes more than a power of two lie in different banks.
LANES = 8, 4
# Terms that are read together: more need registers that sums could have.
TERMS_AT_ONCE = 2


def scalar_blocks(op: tile.Dot, simdgroups: int) -> LinearLayout:
    """The layout of a product: a lane has rows that are 8 apart, and columns in groups of
    neighbours that one access of the right operand moves.

        lane      0  0  1  1  2  2  3  3  0  0  1  1  2  2  3  3
        column    0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15      for groups of two
    """
    blocks = choose_blocks(op, simdgroups)
    shape = element_type(op.result.type).shape
    height, width = shape[0] // blocks.rows, shape[1] // blocks.columns
    down, across = LANES
    group = neighbours(width, tile.matrix_type(op.b).element.bytes)

    def steps(axis: int, start: int, end: int) -> list[tuple[int, int]]:
        sizes = [start << bit for bit in range(log2(end) - log2(start))]
        return [(0, s) if axis else (s, 0) for s in sizes]

    return LinearLayout.of(
        shape,
        register=[
            *steps(1, 1, group),
            *steps(1, group * across, width),
            *steps(0, down, height),
        ],
        lane=[*steps(1, group, group * across), *steps(0, 1, down)],
        simdgroup=[
            *steps(0, height, shape[0]),
            *steps(1, width, shape[1]),
            *[(0, 0)] * log2(blocks.copies),
        ],
    )


def neighbours(width: int, element_bytes: int) -> int:
    """How many columns of a block of some width a lane has beside each other."""
    return min(VECTOR_BYTES // element_bytes, width // LANES[1])
