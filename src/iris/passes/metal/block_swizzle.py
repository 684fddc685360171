"""Renumber programs so that those that run at a time share what they load."""

from __future__ import annotations

from dataclasses import dataclass

from iris.errors import PipelineError
from iris.ir import math, metal
from iris.ir.builder import Builder
from iris.ir.control import Func
from iris.ir.core import Level, Module, Op, Value
from iris.ir.math import Constant, Predicate
from iris.ir.types import i32, u32
from iris.passes.pipeline import Pass

MOST_ROWS = 32
_REPORTS: set[type[Op]] = {metal.Assert, metal.Print}


@dataclass(frozen=True)
class BlockSwizzle(Pass):
    """Renumber the programs of a grid so that consecutive ones form blocks of `group` rows.

    A GPU starts programs along axis 0 first.  For a matrix product those share their columns and
    no rows.  In groups of 2 rows, a grid of 4x3 starts in this order:

        0  1  2  3                0  2  4  6
        4  5  6  7     becomes    1  3  5  7
        8  9 10 11                8  9 10 11

    so that four programs need two rows and two columns, not one row and four columns:

        %column: i32 = metal.threadgroup_id 0
        %row: i32 = metal.threadgroup_id 1

    becomes, up to casts to u32, in which nothing overflows,

        %x: i32 = metal.threadgroup_id 0
        %y: i32 = metal.threadgroup_id 1
        %place: i32 = and %y, %c1                       // in the group
        %rest: i32 = and %width, %c1                    // of the row, beyond whole columns
        %0: i32 = mul %rest, %place
        %number: i32 = add %0, %x
        ...
        %column: i32 = select %whole, %3, %x            // %width // 2 * %place + %number // 2
        %row: i32 = select %whole, %5, %y               // %y - %place + %number % 2

    Rows after the last whole group keep their order, so every program runs once for every grid.
    A kernel that asks for one axis alone stays as it is, as does one with asserts or prints: these
    report the number of the threadgroup.

    The cost model sees what the last-level cache need not load again, but only where the arrays of
    a launch are larger than this cache.  So it is for a launch to ask for: `swizzle=4`.
    """

    name = "block-swizzle"
    level = Level.METAL
    group: int = 4

    def run(self, module: Module) -> dict[str, int]:
        if self.group not in range(2, MOST_ROWS + 1) or self.group.bit_count() != 1:
            raise PipelineError(
                f"block-swizzle: group is a power of two from 2 to {MOST_ROWS}, not {self.group}"
            )
        functions = [f for f in module if isinstance(f, Func)]
        return {"swizzled": sum(_swizzle(f, self.group) for f in functions)}


def _swizzle(function: Func, group: int) -> bool:
    ops = function.walk()
    ids = [op for op in ops if isinstance(op, metal.ThreadgroupId)]
    if not {0, 1} <= {op.axis for op in ids} or any(type(op) in _REPORTS for op in ops):
        return False
    b = Builder(function.body, function.body.first, function.location)
    places = _places(b, group)
    for op in ids:
        if op.axis < len(places):
            op.result.replace_by(places[op.axis])
            op.erase()
    return True


def _places(b: Builder, group: int) -> tuple[Value, Value]:
    """Where a program works, in place of its numbers along axes 0 and 1."""

    def constant(number: int) -> Value:
        return b(Constant(number, u32))

    x, y = (b(metal.ThreadgroupId(axis)) for axis in (0, 1))
    column, row, width, height = (
        b(math.Cast(n, u32)) for n in (x, y, *[b(metal.NumThreadgroups(a)) for a in (0, 1)])
    )
    low, shift = constant(group - 1), constant(group.bit_length() - 1)
    place = b(math.And(row, low), "place")
    first = b(math.Sub(row, place), "first")
    # The number in the group is `column + width * place`; what of that is whole columns, that is
    # multiples of the group, is added after the division, so that nothing overflows.
    rest = b(math.Mul(b(math.And(width, low)), place))
    number = b(math.Add(rest, column), "number")
    whole_columns = b(math.Mul(b(math.Shr(width, shift)), place))
    new_column = b(math.Add(whole_columns, b(math.Shr(number, shift))))
    new_row = b(math.Add(first, b(math.And(number, low))))
    whole_rows = b(math.Sub(height, b(math.And(height, low))))
    is_whole = b(math.Compare(Predicate.LT, row, whole_rows), "whole")
    return (
        b(math.Select(is_whole, b(math.Cast(new_column, i32)), x), "column"),
        b(math.Select(is_whole, b(math.Cast(new_row, i32)), y), "row"),
    )
