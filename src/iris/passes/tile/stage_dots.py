"""Choosing where products read their operands."""

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
from iris.ir.declare import Access
from iris.ir.effects import effects_within, may_alias, writes
from iris.ir.metal import SIMDGROUP_WIDTH
from iris.ir.types import Staged, Tile
from iris.passes.pipeline import TargetPass
from iris.passes.tile.layouts.fragments import (
    arrange,
    comes_from_product,
    is_of_fragments,
    matrix_type,
)
from iris.passes.tile.layouts.staged_layouts import fastest_axis, padded, swizzled
from iris.targets import Target

# What of its registers a thread may hold of an operand all the time.
MOST_HELD = 1 / 4


@dataclass(frozen=True)
class StageDots(TargetPass):
    """Put the operands of products into threadgroup memory, where all simdgroups read the
    fragments that they need.

        %c: tile<64x64xf32> = tile.dot %a, %b, acc=%acc

    becomes

        %0: staged<64x32xf32, (64,32):(36,1)> = tile.stage %a
        %1: staged<32x64xf32, (32,64):(68,1)> = tile.stage %b
        %c: tile<64x64xf32> = tile.dot %0, %1, acc=%acc

    What one round of a loop needs is staged together, if there is room, to wait for it once.  What
    is contiguous when it is loaded is contiguous there.  Rows are 16 bytes further apart than
    they are long, so that those of a fragment lie in different banks; without room for that, they
    are swizzled.

    A left operand stays in registers if each simdgroup needs rows that no other does, and either
    it is made of a product, whose rows are there already, or it is the same in every round of a
    loop and there is room for it.  The largest operands do if there is no room for all: each
    simdgroup loads the fragments that it needs.
    """

    name = "stage-dots"
    level = tile.TileOp.level

    def run(self, module: Module) -> dict[str, int]:
        staged = 0
        for function in module:
            assert isinstance(function, Func)
            if not function.simdgroups:
                raise PipelineError(
                    f"@{function.symbol} does not say how many simdgroups run it; "
                    "run choose-simdgroups before"
                )
            products = [
                _Product(op, function.simdgroups, self.target)
                for op in function.walk()
                if isinstance(op, tile.Dot) and is_of_fragments(op)
            ]
            if products:
                staged += _Staging(function, products, self.target).apply()
        return {"staged": staged}


class _Product:
    """A product, and which of its operands are to be staged."""

    def __init__(self, op: tile.Dot, simdgroups: int, target: Target):
        self.op = op
        self.found = arrange(op, simdgroups)
        is_held = comes_from_product(op.a) or self._is_kept(simdgroups, target)
        self.sides = [op.b] if is_held else [op.a, op.b]

    def _is_kept(self, simdgroups: int, target: Target) -> bool:
        """Whether the left operand is in registers all the time, while a loop goes on."""
        type_ = matrix_type(self.op.a)
        registers = prod(type_.shape) * type_.element.bits // (32 * simdgroups * SIMDGROUP_WIDTH)
        is_alone = self.found.rows == simdgroups
        return (
            is_alone
            and self.op.a.home is not self.op.parent
            and registers <= MOST_HELD * target.thread_registers
        )

    @property
    def operands(self) -> list[Value]:
        return [v for v in self.sides if isinstance(v.type, Tile)]


class _Staging:
    """What the products of a function need staged, and where."""

    def __init__(self, function: Func, products: Sequence[_Product], target: Target):
        self.target = target
        self.products = products
        self.axes = Axes()
        self.written = writes(effects_within(function))

    def apply(self) -> int:
        types, together = self._fitting()
        before: dict[Region | None, Op] = {}  # what the first products of a region stand in
        where: dict[Value, Value] = {}
        for p in self.products:
            op = p.op
            for value in p.operands:
                if value not in where:
                    user = _outermost(op, value)
                    first = before.setdefault(user.parent, user)
                    early = together and first is not user and self._is_made_before(value, first)
                    stage = tile.Stage(value, result=types[value], location=op.location)
                    (first if early else user).insert_before(stage)
                    stage.result.name = value.name
                    where[value] = stage.result
            a, b = (where.get(v, v) if v in p.operands else v for v in (op.a, op.b))
            op.set_operands((a, b, *op.operands[2:]))
        return len(where)

    def _is_made_before(self, value: Value, first: Op) -> bool:
        """Whether a value is made before an op of its region, after what it is made of was moved
        there, if that can be."""
        region = first.parent
        assert region is not None
        ops, made_by = list(region), makers([value], region)
        later = [op for op in ops[ops.index(first) :] if op in made_by]
        movable = first not in made_by and all(map(self._may_move, later))
        if movable:
            for op in later:
                op.detach()
                first.insert_before(op)
        return movable

    def _may_move(self, op: Op) -> bool:
        """Whether an op may come earlier: past products, and whatever is written."""
        return not any(isinstance(inner, tile.Dot) for inner in op.walk()) and not any(
            Access.WRITE in e.access or any(may_alias(e.resource, w) for w in self.written)
            for e in effects_within(op)
        )

    def _fitting(self) -> tuple[dict[Value, Staged], bool]:
        """The types of what is staged, and whether all of a region is staged together; takes from
        the products what does not fit."""
        room = self.target.threadgroup_bytes
        while True:
            values = list(dict.fromkeys(v for p in self.products for v in p.operands))
            columns = {p.op.b: p.found.together for p in self.products}
            for together, lie in product((True, False), (padded, swizzled)):
                types = {
                    v: lie(v, fastest_axis(v, self.axes), columns.get(v, 1), self.target)
                    for v in values
                }
                if self._bytes(types, together) <= room:
                    return types, together
            largest = max(values, key=lambda v: _size(types[v]))
            for p in self.products:
                p.sides = [v for v in p.sides if v is not largest]

    def _bytes(self, types: Mapping[Value, Staged], together: bool) -> int:
        """What is in threadgroup memory at once: what is staged before a loop all the time, and
        what is staged in it, from the first product that needs it to the last.  If all of a region
        is staged together, that of the regions around a product is there, too."""
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
            here = {
                v
                for v, uses in spans.items()
                if (v.home in around if together else uses[0] <= number <= uses[-1])
            }
            peak = max(peak, sum(_size(types[v]) for v in early | here))
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


def _outermost(op: Op, value: Value) -> Op:
    """The op with regions around an op, or the op itself, that stands where a value is made: what
    is the same in every round of a loop is staged before it."""
    while op.parent is not value.home and op.parent_op is not None:
        op = op.parent_op
    return op
