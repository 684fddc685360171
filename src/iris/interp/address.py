"""Integer arithmetic that feeds an address: there, what does not fit 32 bits is an error.

Wrapping does no harm while all that follows wraps too: `a + b - b` is right whatever `a + b` is.
So what feeds an address is computed with more bits where 32 are too few, and the error is made
where such a number becomes an address, or meets an op to which it matters, such as a division.
To everything else, a comparison say, it is the wrapped number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir import math, scalar, tile
from iris.ir.control import For, Func, If, Loop, carried
from iris.ir.core import Facet, Op, Value
from iris.ir.types import ElementType, i32, i64

Array = npt.NDArray[Any]
Interval = tuple[int, int]
INT64 = np.dtype(np.int64)

# What makes the same 32 bits from numbers that have wrapped, and between which bounds.
_WRAPPING: dict[type[Op], Callable[..., Interval]] = {
    math.Add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    math.Sub: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    math.Mul: lambda a, b: _around(x * y for x in a for y in b),
    math.Shl: lambda a, b: _around(x << min(max(y, 0), 31) for x in a for y in b),
    math.Neg: lambda a: (-a[1], -a[0]),
    math.Cast: lambda a: a,
}


class Role(Enum):
    """What an op does with integers on their way to an address."""

    WRAPS = "its result may wrap, and yet be right once more has been added"
    MOVES = "it moves elements"
    NEEDS = "its operands must fit"
    STARTS = "its result is made anew"


address_role = Facet("address arithmetic")
address_role(*_WRAPPING)(Role.WRAPS)
address_role(math.Select)(Role.MOVES)
address_role(
    tile.Broadcast,
    tile.ConvertLayout,
    tile.ExpandDims,
    tile.Flip,
    tile.Gather,
    tile.Pick,
    tile.Reshape,
    tile.Transpose,
)(Role.MOVES)
address_role(math.FloorDiv, math.Mod, math.Abs, math.AssumeDivisible)(Role.NEEDS)
address_role(math.Maximum, math.Minimum, math.MaxNum, math.MinNum)(Role.NEEDS)
# Bitwise ops are among these: who uses them on what wraps wants it to.
address_role(math.Elementwise, math.Constant, Loop, If)(Role.STARTS)
address_role(tile.ProgramId, tile.NumPrograms, tile.Extent, tile.Arange)(Role.STARTS)
address_role(tile.Load, tile.MaskedLoad, tile.LoadTile, tile.Update, tile.Unstage)(Role.STARTS)
address_role(tile.Atomic, tile.AtomicCas, tile.Dot, tile.Reduce, tile.Scan)(Role.STARTS)


class AddressArithmetic:
    """The ops of a function through which integers reach an address."""

    def __init__(self, function: Func):
        self.wrapping: set[Op] = set()  # those in i32 that wrap
        self.moving: set[Op] = set()
        self.exact: set[Op] = set()
        self.overflowed: set[Op] = set()  # those that have needed more than 32 bits
        self._follow(value for op in function.walk() for value in address_parts(op))

    def evaluate(self, op: Op, *operands: Array) -> Array | None:
        """The value of a wrapping op, exactly; None if 64 bits are too few."""
        bounds = [(int(x.min()), int(x.max())) for x in operands]
        low, high = _WRAPPING[type(op)](*bounds)
        if i32.low <= low and high <= i32.high:
            return scalar.evaluate(op, *operands)
        if low < i64.low or high > i64.high:
            return None
        wide = [x.astype(INT64) for x in operands]
        exact = wide[0] if isinstance(op, math.Cast) else scalar.evaluate(op, *wide)
        if not beyond(exact).any():
            return exact.astype(np.int32)
        self.overflowed.add(op)
        return exact

    def culprit(self, value: Value) -> Op | None:
        """An op in the making of a value that needed more than 32 bits, before all others."""
        made_by = self._follow([value])
        return next((op for op in reversed(made_by) if op in self.overflowed), None)

    def _follow(self, values: Iterable[Value]) -> list[Op]:
        """The ops by which values are made, those of an operand after those that use it."""
        found: dict[Op, None] = {}
        seen: set[Value] = set()
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            if value in seen or not isinstance(value.type, ElementType):
                continue
            seen.add(value)
            if value.type.element not in (i32, i64):
                continue
            op = value.op
            if op is not None:
                found[op] = None
                role = address_role[type(op)]
                if role is Role.MOVES:
                    self.moving.add(op)
                elif role is Role.WRAPS and value.type.element is i32:
                    self.wrapping.add(op)
                elif role is Role.NEEDS or isinstance(op, math.Cast):
                    self.exact.add(op)
            waiting += _sources(value)
        return list(found)


def address_parts(op: Op) -> tuple[Value, ...]:
    """The operands of an op that are made into addresses."""
    if isinstance(op, tile.Load | tile.Store | tile.Atomic | tile.AtomicCas):
        return (op.offset,)
    if isinstance(op, tile.TileAccess):
        return (*op.offsets, *op.strides)
    if isinstance(op, tile.Gather):
        return (op.index,)
    return ()


def is_beyond(value: Value, x: Any) -> bool:
    """Whether an i32 is kept with more bits."""
    type_ = value.type
    return isinstance(type_, ElementType) and type_.element is i32 and x.dtype == INT64


def beyond(x: Array) -> Array:
    """Where numbers do not fit i32."""
    return np.asarray((x < i32.low) | (x > i32.high))


def _sources(value: Value) -> tuple[Value, ...]:
    """The integers of which a value is made."""
    op, slot = value.owner, carried(value)
    if slot is not None:
        return slot.initial, slot.yielded
    if isinstance(op, For):
        return op.operands[:3]
    if isinstance(op, If):
        return tuple([region.end.operands[value.index] for region in op.regions])
    if value.op is None or address_role[type(value.op)] is Role.STARTS:
        return ()
    return value.op.operands


def _around(numbers: Iterable[int]) -> Interval:
    found = list(numbers)
    return min(found), max(found)
