"""Letting maxima of rows drop nan where it comes through in another way."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from iris.ir import math, tile
from iris.ir.core import Module, Op, Value
from iris.ir.kinds import ReduceKind
from iris.ir.math import Constant
from iris.ir.types import Tile
from iris.passes.pipeline import Pass

_DROPPING = {
    ReduceKind.MAXIMUM: ReduceKind.MAXNUM,
    ReduceKind.MINIMUM: ReduceKind.MINNUM,
}
# Ops whose result is nan wherever an operand is.
_PROPAGATES = (
    *(math.Add, math.Sub, math.Mul, math.Div, math.Fma, math.Neg, math.Abs, math.Sqrt, math.Rsqrt),
    *(math.Exp, math.Exp2, math.Log, math.Log2, math.Sin, math.Cos, math.Tanh),
)
_MOVES = (tile.Broadcast, tile.ExpandDims, tile.Reshape, tile.Transpose)


@dataclass(frozen=True)
class RelaxNans(Pass):
    """Reduce a row by the maximum that drops nan, if each result is nan of a row that has one.

        %m: f32 = tile.reduce maximum 0 %x
        %0: tile<64xf32> = tile.broadcast %m
        %1: tile<64xf32> = sub %x, %0
        %e: tile<64xf32> = exp %1
        %s: f32 = tile.reduce sum 0 %e
        %2: tile<64xf32> = tile.broadcast %s
        %y: tile<64xf32> = div %e, %2

    becomes the same with

        %m: f32 = tile.reduce maxnum 0 %x

    An element of `%x` that is nan makes one of `%e` nan, whatever the maximum is; hence the sum,
    and all of `%y`.  The maximum of the hardware drops nan, so that this one costs less.  Rows of
    tiles of one axis are looked at, in the region that reduces them.
    """

    name = "relax-nans"
    level = tile.TileOp.level

    def run(self, module: Module) -> dict[str, int]:
        relaxed = 0
        for op in module.walk():
            if isinstance(op, tile.Reduce) and _may_drop(op):
                op.attributes = (_DROPPING[op.kind], *op.attributes[1:])
                relaxed += 1
        return {"relaxed": relaxed}


def _may_drop(reduce: tile.Reduce) -> bool:
    """Whether a row with nan has the same results if the reduction drops it."""
    is_row = reduce.kind in _DROPPING and not isinstance(reduce.result.type, Tile)
    return is_row and reduce.x.type.element.is_float and _Row(reduce).hides_extremum()


class _Row:
    """The values that are nan, given that some element of a row is."""

    def __init__(self, reduce: tile.Reduce):
        self.reduce = reduce
        self.differs = {reduce.result}  # may depend on whether nan is dropped
        self.all_nan: set[Value] = set()  # in each element
        self.nan_there = {reduce.x}  # in the elements where the row is
        self.mask: Value | None = None  # of the elements that may be
        source = reduce.x.op
        if isinstance(source, math.Select) and _is_number(source.on_false):
            self.nan_there.add(source.on_true)
            self.mask = source.condition

    def hides_extremum(self) -> bool:
        """Whether all that depends on the reduction ends in values that are nan in any case."""
        op = self.reduce.next
        while op is not None:
            if not self._visit(op):
                return False
            op = op.next
        region = self.reduce.parent
        return all(user.parent is region for value in self.differs for user in value.users)

    def _visit(self, op: Op) -> bool:
        """Learn of an op's result; false if what differs goes where it may be told."""
        depends = not self.differs.isdisjoint(op.operands)
        if not isinstance(op, (*_PROPAGATES, *_MOVES, math.Select, tile.Reduce)):
            return not depends
        (result,) = op.results
        if self._is_all_nan(op):
            self.all_nan.add(result)
            return True
        if self._is_nan_there(op):
            self.nan_there.add(result)
        if depends:
            self.differs.add(result)
        return not depends or not isinstance(op, tile.Reduce)

    def _is_all_nan(self, op: Op) -> bool:
        if isinstance(op, tile.Reduce):
            sums = op.kind in (ReduceKind.SUM, ReduceKind.PROD)
            return sums and (op.x in self.all_nan or op.x in self.nan_there)
        return isinstance(op, (*_PROPAGATES, *_MOVES)) and not self.all_nan.isdisjoint(op.operands)

    def _is_nan_there(self, op: Op) -> bool:
        if isinstance(op, math.Select):
            return op.condition is self.mask and op.on_true in self.nan_there
        return isinstance(op, _PROPAGATES) and not self.nan_there.isdisjoint(op.operands)


def _is_number(value: Value) -> bool:
    """Whether a value is a constant other than nan."""
    return isinstance(value.op, Constant) and not isnan(value.op.value)
