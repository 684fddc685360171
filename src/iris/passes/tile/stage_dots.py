"""Stage the operands of matrix products in threadgroup memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from iris.analysis.axis import Axes
from iris.analysis.backward_slice import makers
from iris.errors import PipelineError
from iris.ir import tile
from iris.ir.control import Func
from iris.ir.core import Module, Op, Region, Value
from iris.ir.effects import effects_within, may_alias, writes
from iris.ir.metal import SIMDGROUP_WIDTH
from iris.ir.types import Staged, Tile
from iris.passes.pipeline import TargetPass
from iris.passes.tile.layouts.fragments import (
    arrange,
    comes_from_product,
    is_large,
    is_of_fragments,
)
from iris.passes.tile.layouts.staged_layouts import fastest_axis, padded, swizzled
from iris.targets import Target

# The fraction of registers that an operand may occupy throughout a loop.
MAX_HELD_FRACTION = 1 / 4


@dataclass(frozen=True)
class StageDots(TargetPass):
    """Put the operands of products into threadgroup memory, where all simdgroups read the
    fragments that they need.

        %c: tile<64x64xf32> = tile.dot %a, %b, acc=%acc

    becomes

        %0: staged<64x32xf32, (64,32):(36,1)> = tile.stage %a
        %1: staged<32x64xf32, (32,64):(68,1)> = tile.stage %b
        %c: tile<64x64xf32> = tile.dot %0, %1, acc=%acc

    All that one iteration needs is staged together, if it fits, so that threads wait once.  The
    axis that is contiguous in device memory stays contiguous.  Rows are padded by 16 bytes, so that
    the rows of a fragment lie in different banks; if padding does not fit, they are swizzled.

    A left operand stays in registers if no two simdgroups need the same rows, and either it comes
    from a product, whose rows are there already, or it is loop-invariant and fits; not if the
    matrix hardware leaves the product to scalar arithmetic, which reads both from there.  If not
    all operands fit in threadgroup memory, the largest stay in registers: each simdgroup loads the
    fragments that it needs.
    """

    name = "stage-dots"
    level = tile.TileOp.level

    def run(self, module: Module) -> dict[str, int]:
        staged = 0
        for function in [f for f in module if isinstance(f, Func)]:
            if not function.simdgroups:
                raise PipelineError(
                    f"@{function.symbol} does not say how many simdgroups run it; "
                    "run choose-simdgroups before"
                )
            products = [
                _StagedDot(op, function.simdgroups, self.target)
                for op in function.walk()
                if isinstance(op, tile.Dot) and is_large(op)
            ]
            if products:
                staged += _Staging(function, products, self.target).apply()
        return {"staged": staged}


class _StagedDot:
    """A product, and the operands to stage."""

    def __init__(self, op: tile.Dot, simdgroups: int, target: Target):
        self.op = op
        self.together, is_held = 1, False
        if is_of_fragments(op, target):
            arrangement = arrange(op, simdgroups, target)
            self.together = arrangement.together
            is_held = comes_from_product(op.a) or (
                arrangement.rows == simdgroups and self._fits_in_registers(simdgroups, target)
            )
        self.staged_operands = [op.b] if is_held else [op.a, op.b]

    def _fits_in_registers(self, simdgroups: int, target: Target) -> bool:
        """Whether the left operand can stay in registers throughout a loop."""
        type_ = tile.matrix_type(self.op.a)
        registers = prod(type_.shape) * type_.element.bits // (32 * simdgroups * SIMDGROUP_WIDTH)
        return (
            self.op.a.home is not self.op.parent
            and registers <= MAX_HELD_FRACTION * target.thread_registers
        )

    @property
    def operands(self) -> list[Value]:
        return [v for v in self.staged_operands if isinstance(v.type, Tile)]


class _Staging:
    """Stages the operands of the products of a function."""

    def __init__(self, function: Func, products: Sequence[_StagedDot], target: Target):
        self.target = target
        self.products = products
        self.axes = Axes()
        self.written = writes(effects_within(function))

    def apply(self) -> int:
        types, together = self._choose_types()
        before: dict[Region | None, Op] = {}  # the ops with the first products of a region
        stage_of: dict[Value, Value] = {}
        for dot in self.products:
            op = dot.op
            for value in dot.operands:
                if value not in stage_of:
                    user = _enclosing_op_beside(op, value)
                    first = before.setdefault(user.parent, user)
                    early = together and first is not user and self._move_before(value, first)
                    stage = tile.Stage(value, result=types[value], location=op.location)
                    (first if early else user).insert_before(stage)
                    stage.result.name = value.name
                    stage_of[value] = stage.result
            a, b = (stage_of.get(v, v) if v in dot.operands else v for v in (op.a, op.b))
            op.set_operands((a, b, *op.operands[2:]))
        return len(stage_of)

    def _move_before(self, value: Value, first: Op) -> bool:
        """Move the definition of a value before an op of its region; return whether it is there."""
        region = first.enclosing
        ops, made_by = list(region), makers([value], region)
        later = [op for op in ops[ops.index(first) :] if op in made_by]
        movable = first not in made_by and all(map(self._may_move, later))
        if movable:
            for op in later:
                op.detach()
                first.insert_before(op)
        return movable

    def _may_move(self, op: Op) -> bool:
        """Whether an op may move past products and writes."""
        return not any(isinstance(inner, tile.Dot) for inner in op.walk()) and not any(
            e.access.writes or any(may_alias(e.resource, w) for w in self.written)
            for e in effects_within(op)
        )

    def _choose_types(self) -> tuple[dict[Value, Staged], bool]:
        """Choose types for the staged operands, and whether a region stages all of them together.

        Operands that do not fit are no longer staged.
        """
        capacity = self.target.threadgroup_bytes
        while True:
            values = list(dict.fromkeys(v for p in self.products for v in p.operands))
            columns = {p.op.b: p.together for p in self.products}
            for together, make_type in product((True, False), (padded, swizzled)):
                types = {
                    v: make_type(v, fastest_axis(v, self.axes), columns.get(v, 1), self.target)
                    for v in values
                }
                if self._bytes(types, together) <= capacity:
                    return types, together
            largest = max(values, key=lambda v: _size(types[v]))
            for p in self.products:
                p.staged_operands = [v for v in p.staged_operands if v is not largest]

    def _bytes(self, types: Mapping[Value, Staged], together: bool) -> int:
        """The peak of threadgroup memory.

        A tile that is staged before a loop is live throughout; one that is staged in it, from its
        first product to its last.  If a region stages all together, tiles of the regions around a
        product are live, too.
        """
        early: set[Value] = set()
        spans: dict[Value, list[int]] = {}
        for number, p in enumerate(self.products):
            for value in p.operands:
                spans.setdefault(value, []).append(number)
                if value.home is not p.op.parent:
                    early.add(value)
        peak = 0
        for number, p in enumerate(self.products):
            around = _regions_around(p.op)
            live = {
                v
                for v, uses in spans.items()
                if (v.home in around if together else uses[0] <= number <= uses[-1])
            }
            peak = max(peak, sum(_size(types[v]) for v in early | live))
        return peak


def _size(type_: Staged) -> int:
    return type_.layout.cosize * type_.element.bytes


def _regions_around(op: Op) -> list[Region]:
    regions = []
    outer: Op | None = op
    while outer is not None and outer.parent is not None:
        regions.append(outer.parent)
        outer = outer.parent_op
    return regions


def _enclosing_op_beside(op: Op, value: Value) -> Op:
    """The op around `op`, or `op` itself, in the region that defines a value.

    A loop-invariant value is staged before the loop.
    """
    while op.parent is not value.home and op.parent_op is not None:
        op = op.parent_op
    return op
