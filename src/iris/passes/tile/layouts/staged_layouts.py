"""Layouts in threadgroup memory for the operands of products."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from iris.analysis.axis import Axes, order
from iris.ir import tile
from iris.ir.control import If
from iris.ir.core import Value
from iris.ir.layout.banks import cycles
from iris.ir.layout.cute import Layout
from iris.ir.layout.linear import APPLE_FRAGMENT, log2
from iris.ir.layout.swizzle import Swizzle, Swizzled
from iris.ir.math import Constant, Elementwise, element_type
from iris.ir.metal import FRAGMENT_SIZE, SIMDGROUP_WIDTH
from iris.ir.types import Staged, Tile
from iris.targets import Target

PADDING_BYTES = 16
# Where in a fragment the lanes of a simdgroup read.
_ROWS, _COLUMNS = APPLE_FRAGMENT.apply(register=0, lane=np.arange(SIMDGROUP_WIDTH))


def fastest_axis(value: Value, axes: Axes) -> int:
    """The axis that is contiguous in the memory that a tile is loaded from."""
    op = value.op
    if isinstance(op, (tile.Load, tile.LoadTile)):
        return order(op, axes)[0]
    if isinstance(op, tile.Transpose):
        return op.permutation.index(fastest_axis(op.x, axes))
    if isinstance(op, If):
        return fastest_axis(op.regions[0].end.operands[value.index], axes)
    shape = element_type(value.type).shape
    if isinstance(op, tile.Reshape) and element_type(op.x.type).shape == (1, *shape):
        return max(0, fastest_axis(op.x, axes) - 1)
    if isinstance(op, Elementwise):
        for x in op.operands:
            if isinstance(x.type, Tile) and not isinstance(x.op, (tile.Broadcast, Constant)):
                return fastest_axis(x, axes)
    return len(shape) - 1


def padded(value: Value, fastest: int, together: int, target: Target) -> Staged:
    """A staged type with padding after each row or column, unless that does not help."""
    type_ = tile.matrix_type(value)
    size = type_.element.bytes
    layout = _fastest_layout(type_.shape, fastest, together, size, PADDING_BYTES // size, target)
    return Staged(type_.shape, type_.element, layout)


def swizzled(value: Value, fastest: int, together: int, target: Target) -> Staged:
    """A staged type without padding, swizzled if that helps."""
    type_ = tile.matrix_type(value)
    layout = _fastest_layout(type_.shape, fastest, together, type_.element.bytes, 0, target)
    return Staged(type_.shape, type_.element, layout)


@lru_cache(maxsize=256)
def _fastest_layout(
    shape: tuple[int, ...], fastest: int, together: int, size: int, padding: int, target: Target
) -> Layout | Swizzled:
    """The layout that reads fragments in the fewest cycles: padded, or else swizzled.

    >>> from iris.targets.apple import M1
    >>> [str(_fastest_layout((32, 64), 1, 1, 4, padding, M1)) for padding in (0, 4)]
    ['swizzle<2,3,3> (32,64):(64,1)', '(32,64):(68,1)']
    """
    length = shape[fastest]

    def rows(padding: int) -> Layout:
        step = length + padding
        return Layout(shape, (step, 1) if fastest else (1, step))

    def layouts() -> Iterator[Layout | Swizzled]:
        yield rows(padding)
        # Lower bits, of the element in its row, stay contiguous.
        base, row = log2(FRAGMENT_SIZE), log2(length)
        for bits in range(1, min(base, row - base) + 1):
            for shift in range(max(bits, row - base), row + 1):
                yield Swizzled(Swizzle(bits, base, shift), rows(0))

    width = (2 * together if fastest else 1) * size
    least = max(1, SIMDGROUP_WIDTH * width // (target.banks * target.bank_bytes))
    cycles_of: dict[Layout | Swizzled, int] = {}
    for layout in layouts():
        cycles_of[layout] = cycles(_read_offsets(layout, together) * size, width, target)
        if cycles_of[layout] == least:
            return layout
    return min(cycles_of, key=cycles_of.__getitem__)


def _read_offsets(layout: Layout | Swizzled, together: int) -> npt.NDArray[np.int64]:
    """The offsets that the lanes of a simdgroup read `together` fragments at."""
    return np.asarray(layout(_ROWS + layout.modes[0].size * together * _COLUMNS))
