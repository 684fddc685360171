"""Layouts in threadgroup memory for the operands of products."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from iris.ir import math, tile
from iris.ir.control import If
from iris.ir.core import Value
from iris.ir.layout.banks import cycles
from iris.ir.layout.cute import Layout
from iris.ir.layout.linear import APPLE_FRAGMENT, REGISTER, log2
from iris.ir.layout.swizzle import Swizzle, Swizzled
from iris.ir.math import Constant, element_type
from iris.ir.metal import SIMDGROUP_WIDTH
from iris.ir.types import Staged
from iris.passes.axis import Axes, order
from iris.passes.layouts.fragments import SIZE, matrix_type
from iris.target import AppleGPU

PADDING_BYTES = 16


def fastest_axis(value: Value, axes: Axes) -> int:
    """The axis along which neighbours are together in the memory that a tile is loaded from."""
    op = value.op
    if isinstance(op, tile.Load | tile.LoadTile):
        return order(op, axes)[0]
    if isinstance(op, tile.Transpose):
        return op.permutation.index(fastest_axis(op.x, axes))
    if isinstance(op, If):
        return fastest_axis(op.regions[0].end.operands[value.index], axes)
    shape = element_type(value.type).shape
    if isinstance(op, tile.Reshape) and element_type(op.x.type).shape == (1, *shape):
        return max(0, fastest_axis(op.x, axes) - 1)
    if op is not None and type(op).__module__ == math.__name__:
        for operand in op.operands:
            if operand.op is not None and not isinstance(operand.op, tile.Broadcast | Constant):
                return fastest_axis(operand, axes)
    return len(shape) - 1


def padded(value: Value, fastest: int) -> Staged:
    """Rows, or columns, with some padding after each."""
    type_ = matrix_type(value)
    length = type_.shape[fastest] + PADDING_BYTES // (type_.element.bits // 8)
    strides = (length, 1) if fastest else (1, length)
    return Staged(type_.shape, type_.element, Layout(type_.shape, strides))


def swizzled(value: Value, fastest: int) -> Staged:
    """Rows, or columns, one after the other."""
    type_ = matrix_type(value)
    layout = _best_swizzle(type_.shape, fastest, type_.element.bits // 8)
    return Staged(type_.shape, type_.element, layout)


@lru_cache(maxsize=256)
def _best_swizzle(shape: tuple[int, ...], fastest: int, size: int) -> Layout | Swizzled:
    """The layout with which a fragment is read in the fewest cycles.

    >>> str(_best_swizzle((64, 32), 1, 4))
    'swizzle<2,3,3> (64,32):(32,1)'
    """
    length = shape[fastest]
    plain = Layout(shape, (length, 1) if fastest else (1, length))
    # Bits of an element's number in its row, which stay together, are below.
    base, row = log2(SIZE), log2(length)
    layouts = [plain] + [
        Swizzled(Swizzle(bits, base, shift), plain)
        for bits in range(1, base + 1)
        for shift in range(max(bits, row - base), row + 1)
        if base + bits <= row
    ]
    return min(layouts, key=lambda layout: _cycles(layout, fastest, size))


def _cycles(layout: Layout | Swizzled, fastest: int, size: int) -> int:
    """How long a simdgroup reads a fragment."""
    together = dict(APPLE_FRAGMENT.bases)[REGISTER][0][fastest]
    total = 0
    for register in range(1 if together else 2):
        rows, columns = APPLE_FRAGMENT.apply(register=register, lane=np.arange(SIMDGROUP_WIDTH))
        places = np.asarray([layout(place) for place in zip(rows, columns, strict=True)])
        total += cycles(places * size, size * (1 + together), AppleGPU())
    return total
