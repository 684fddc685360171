"""Matrix products: of fragments, by the hardware's matrices; of others, number by number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iris.ir import math, metal, tile
from iris.ir.control import For, Yield
from iris.ir.core import Op, Region, Value
from iris.ir.layout.linear import LANE, REGISTER, SIMDGROUP, LinearLayout
from iris.ir.layout.scratch import row_major
from iris.ir.math import element_type
from iris.ir.metal import registers
from iris.ir.types import DType, Staged, f32, i32
from iris.passes.metal.numbers import Number
from iris.passes.tile.layouts.fragments import SIZE, Arrangement, is_of_fragments, matrix_type
from iris.passes.tile.lowering.combine import cast
from iris.passes.tile.lowering.context import Lowering, axis_images, lower, tile_layout
from iris.passes.tile.lowering.move import move, write_out
from iris.passes.tile.lowering.staging import reader


@lower(tile.Dot)
def dot(at: Lowering, op: tile.Dot) -> Sequence[Value]:
    found = Arrangement.of(tile_layout(op.result)) if is_of_fragments(op) else None
    return _of_numbers(at, op) if found is None else _of_fragments(at, op, found)


def _of_fragments(at: Lowering, op: tile.Dot, found: Arrangement) -> Sequence[Value]:
    """Fragment by fragment along what is summed over, those of all rows and columns at once."""
    dtype = element_type(op.result.type).element
    assert op.acc is not None
    start = cast(at, at[op.acc], f32)
    (rows, depth), (_, columns) = matrix_type(op.a).shape, matrix_type(op.b).shape
    left = _fragments(at, op.a, found.left(matrix_type(op.a).shape), found.left((rows, SIZE)), 1)
    right = _fragments(
        at, op.b, found.right(matrix_type(op.b).shape), found.right((SIZE, columns)), 0
    )

    def step(k: Number, acc: Value) -> Value:
        return at.b(metal.Mma(left(k), right(k), acc))

    if depth == SIZE:
        return [cast(at, step(0, start), dtype)]
    body = Region(None, [i32, start.type])
    k, acc = body.arguments
    k.name, acc.name = "k", "acc"
    with at.b.inside(body):
        at.b.insert(Yield([step(k, acc)]))
    bounds = at.constant(0), at.constant(depth // SIZE), at.constant(1)
    loop: Op = at.b.insert(For.create((*bounds, start), (), (start.type,), (body,)))
    return [cast(at, loop.results[0], dtype)]


def _fragments(
    at: Lowering, operand: Value, whole: LinearLayout, part: LinearLayout, axis: int
) -> Callable[[Number], Value]:
    """The fragments of an operand, by their number along an axis."""
    width = part.size(REGISTER)
    if isinstance(operand.type, Staged):
        return reader(at, operand, part, axis, SIZE)
    value = move(at, at[operand], tile_layout(operand), whole)
    return lambda k: at.part(value, k, width)


def _of_numbers(at: Lowering, op: tile.Dot) -> Sequence[Value]:
    """Number by number, over operands in threadgroup memory."""
    layout = tile_layout(op.result)
    dtype = element_type(op.result.type).element
    carried = f32 if dtype.is_float else dtype
    a, b = (_staged(at, operand) for operand in (op.a, op.b))
    _, depth = matrix_type(op.a).shape
    _, columns = matrix_type(op.b).shape
    count = layout.size(REGISTER)
    type_ = registers(count, carried)
    assert op.acc is not None
    start = cast(at, at[op.acc], carried)

    body = Region(None, [i32, type_])
    k, acc = body.arguments
    k.name, acc.name = "k", "acc"
    with at.b.inside(body):

        def step(i: Number) -> Sequence[Value]:
            row, column = (_index(at, layout, axis, i) for axis in (0, 1))
            left = _element(at, a, at.add(at.times(row, depth), k), carried)
            right = _element(at, b, at.add(at.times(k, columns), column), carried)
            before = at.part(acc, i, 1)
            if carried.is_float:
                return [at.b(math.Fma(left, right, before))]
            return [at.b(math.Add(before, at.b(math.Mul(left, right))))]

        at.b.insert(Yield(at.each(count, 1, step)))
    bounds = at.constant(0), at.constant(depth), at.constant(1)
    loop: Op = at.b.insert(For.create((*bounds, start), (), (type_,), (body,)))
    return [cast(at, loop.results[0], dtype)]


def _staged(at: Lowering, operand: Value) -> Value:
    layout = tile_layout(operand)
    element = element_type(operand.type).element
    return write_out(at, at[operand], layout, row_major(layout, element.bytes))


def _index(at: Lowering, layout: LinearLayout, axis: int, i: Number) -> Number:
    """The coordinate of one of a thread's elements along an axis."""
    lanes, groups, own = (axis_images(layout, d, axis) for d in (LANE, SIMDGROUP, REGISTER))
    return at.join(at.thread_part(lanes, groups), at.form(i, own), [*lanes, *groups], own)


def _element(at: Lowering, memory: Value, place: Number, dtype: DType) -> Value:
    element = memory.type.element  # type: ignore[attr-defined]
    return cast(at, at.b(metal.Load(memory, at.value(place), result=element)), dtype)
