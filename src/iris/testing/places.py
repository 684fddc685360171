"""Memory of a random tile program: its arrays, the places in them, and how it cuts matrices.

A draft remembers them, so that later steps meet the same memory again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from iris.ir.core import Value
from iris.ir.types import DType, ElementType, Tile
from iris.tools.replay import Array


@dataclass
class Memory:
    """An array argument, and the part of it that a program may touch: `size` elements from
    `program * stride` on, of those that there are."""

    pointer: Value
    recipe: Array
    stride: int  # 0: all programs touch the same
    size: int  # a power of two
    ragged: bool = False  # whether some of that is not there

    @property
    def dtype(self) -> DType:
        return self.recipe.dtype


class Place(NamedTuple):
    """Where a tile of some shape, or a scalar, is in an array."""

    memory: Memory
    shape: tuple[int, ...]
    offset: Value
    mask: Value | None
    distinct: bool  # whether no two active offsets are the same

    @property
    def type(self) -> ElementType:
        """What goes there."""
        element = self.memory.dtype
        return Tile(self.shape, element) if self.shape else element


@dataclass(frozen=True)
class Table:
    """How a program cuts matrices: each program has `rows` rows, in blocks of `columns`.

    `width` is the number of columns, `pitch` the distance from a row to the next, and `height` the
    number of rows of all programs together; the last rows may be missing.
    """

    rows: int
    columns: int
    width: int
    pitch: int
    height: int
    is_flat: bool  # a block of one row has one axis

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.columns,) if self.is_flat else (self.rows, self.columns)

    @property
    def elements(self) -> int:
        return (self.height - 1) * self.pitch + self.width

    def is_whole(self, programs: int) -> bool:
        """Whether every program has all of its rows."""
        return self.height == self.rows * programs
