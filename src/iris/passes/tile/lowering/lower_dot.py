"""Lower matrix products: of fragments to matrix ops, of others to scalar arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iris.ir import math, metal, tile
from iris.ir.control import For, Yield
from iris.ir.core import Op, Region, Value
from iris.ir.layout.linear import LANE, REGISTER, SIMDGROUP, LinearLayout
from iris.ir.layout.scratch import row_major
from iris.ir.metal import FRAGMENT_SIZE, registers
from iris.ir.types import DType, Staged, f32, i32
from iris.passes.metal.index_arithmetic import Number
from iris.passes.tile.layouts.fragments import (
    Arrangement,
    accumulated,
    for_target,
    is_of_fragments,
)
from iris.passes.tile.lowering.context import Lowering, axis_images, lower, tile_layout
from iris.passes.tile.lowering.convert_layout import convert_layout, write_scratch
from iris.passes.tile.lowering.lower_reduce import cast
from iris.passes.tile.lowering.staging import rows_reader, staged_reader


@lower(tile.Dot)
def lower_dot(ctx: Lowering, op: tile.Dot) -> Sequence[Value]:
    arrangement = Arrangement.of(tile_layout(op.result)) if is_of_fragments(op) else None
    if arrangement is not None:
        arrangement = for_target(arrangement, op, ctx.target)
    return (
        _dot_of_scalars(ctx, op) if arrangement is None else _dot_of_fragments(ctx, op, arrangement)
    )


def _dot_of_fragments(ctx: Lowering, op: tile.Dot, arrangement: Arrangement) -> Sequence[Value]:
    """Loop over the fragments along the depth, as many at once as the hardware takes; rows and
    columns are unrolled."""
    dtype = op.result.type.element
    start = cast(ctx, ctx[accumulated(op)], f32)
    a, b = tile.matrix_type(op.a).shape, tile.matrix_type(op.b).shape
    (rows, depth), (_, columns) = a, b
    size = arrangement.depth * FRAGMENT_SIZE
    left = _fragments(ctx, op.a, arrangement.left(a), arrangement.left((rows, size)), 1)
    right = _fragments(ctx, op.b, arrangement.right(b), arrangement.right((size, columns)), 0)

    def step(k: Number, acc: Value) -> Value:
        product = metal.Mma(
            left(k), right(k), acc, depth=arrangement.depth, transposed=arrangement.transposed
        )
        return ctx.b(product)

    if depth == size:
        return [cast(ctx, step(0, start), dtype)]
    body = Region(None, [i32, start.type])
    k, acc = body.arguments
    k.name, acc.name = "k", "acc"
    with ctx.b.inside(body):
        ctx.b.insert(Yield([step(k, acc)]))
    bounds = ctx.constant(0), ctx.constant(depth // size), ctx.constant(1)
    loop: Op = ctx.b.insert(For.create((*bounds, start), ((), False), (start.type,), (body,)))
    return [cast(ctx, loop.results[0], dtype)]


def _fragments(
    ctx: Lowering, operand: Value, whole: LinearLayout, part: LinearLayout, axis: int
) -> Callable[[Number], Value]:
    """The parts of an operand, by their number along an axis."""
    width = part.size(REGISTER)
    if isinstance(operand.type, Staged):
        if ctx.target.matrices[operand.type.element.bits].loads_rows:
            by_rows = rows_reader(ctx, operand, part, axis)
            if by_rows is not None:
                return by_rows
        return staged_reader(ctx, operand, part, axis, part.shape[axis])
    value = convert_layout(ctx, ctx[operand], tile_layout(operand), whole)
    return lambda k: ctx.part(value, k, width)


def _dot_of_scalars(ctx: Lowering, op: tile.Dot) -> Sequence[Value]:
    """Multiply scalars, with the operands in threadgroup memory."""
    layout = tile_layout(op.result)
    dtype = op.result.type.element
    carried = f32 if dtype.is_float else dtype
    a, b = (_write_operand(ctx, operand) for operand in (op.a, op.b))
    _, depth = tile.matrix_type(op.a).shape
    _, columns = tile.matrix_type(op.b).shape
    count = layout.size(REGISTER)
    type_ = registers(count, carried)
    start = cast(ctx, ctx[accumulated(op)], carried)

    body = Region(None, [i32, type_])
    k, acc = body.arguments
    k.name, acc.name = "k", "acc"
    with ctx.b.inside(body):

        def step(i: Number) -> Sequence[Value]:
            row, column = (_index(ctx, layout, axis, i) for axis in (0, 1))
            left = _element(ctx, a, ctx.add(ctx.times(row, depth), k), carried)
            right = _element(ctx, b, ctx.add(ctx.times(k, columns), column), carried)
            before = ctx.part(acc, i, 1)
            if carried.is_float:
                return [ctx.b(math.Fma(left, right, before))]
            return [ctx.b(math.Add(before, ctx.b(math.Mul(left, right))))]

        ctx.b.insert(Yield(ctx.each(count, 1, step)))
    bounds = ctx.constant(0), ctx.constant(depth), ctx.constant(1)
    loop: Op = ctx.b.insert(For.create((*bounds, start), ((), False), (type_,), (body,)))
    return [cast(ctx, loop.results[0], dtype)]


def _write_operand(ctx: Lowering, operand: Value) -> Value:
    layout = tile_layout(operand)
    return write_scratch(ctx, ctx[operand], layout, row_major(layout, operand.type.element.bytes))


def _index(ctx: Lowering, layout: LinearLayout, axis: int, i: Number) -> Number:
    """The coordinate of one of a thread's elements along an axis."""
    lanes, groups, own = (axis_images(layout, d, axis) for d in (LANE, SIMDGROUP, REGISTER))
    return ctx.xor_forms(
        ctx.thread_part(lanes, groups), ctx.linear_form(i, own), [*lanes, *groups], own
    )


def _element(ctx: Lowering, memory: Value, offset: Number, dtype: DType) -> Value:
    return cast(
        ctx, ctx.b(metal.Load(memory, ctx.value(offset), result=memory.type.element)), dtype
    )
