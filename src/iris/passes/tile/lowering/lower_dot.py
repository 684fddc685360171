"""Lower matrix products: of fragments to matrix ops, of others to scalar arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from iris.ir import math, metal, tile
from iris.ir.control import For, Yield
from iris.ir.core import Op, Region, Value
from iris.ir.layout.cute import Layout
from iris.ir.layout.linear import LANE, REGISTER, SIMDGROUP, LinearLayout
from iris.ir.layout.scratch import row_major
from iris.ir.metal import FRAGMENT_SIZE
from iris.ir.types import DType, Staged, Tile, f32, i32
from iris.passes.metal.index_arithmetic import Number
from iris.passes.tile.layouts.fragments import (
    Arrangement,
    accumulated,
    for_target,
    is_of_fragments,
    is_of_tensors,
)
from iris.passes.tile.layouts.scalar_blocks import TERMS_AT_ONCE
from iris.passes.tile.lowering.context import Lowering, axis_images, lower, tile_layout
from iris.passes.tile.lowering.convert_layout import convert_layout, write_scratch
from iris.passes.tile.lowering.lower_reduce import cast
from iris.passes.tile.lowering.staging import rows_reader, staged_reader, strides_of


@lower(tile.Dot)
def lower_dot(ctx: Lowering, op: tile.Dot) -> Sequence[Value]:
    arrangement = None
    if is_of_fragments(op, ctx.target):
        tensors = is_of_tensors(op, ctx.target)
        arrangement = Arrangement.of(tile_layout(op.result), tensors=tensors)
    if arrangement is not None:
        arrangement = for_target(arrangement, op, ctx.target)
    return (
        _dot_of_scalars(ctx, op) if arrangement is None else _dot_of_fragments(ctx, op, arrangement)
    )


def _dot_of_fragments(ctx: Lowering, op: tile.Dot, arrangement: Arrangement) -> Sequence[Value]:
    """Loop over the fragments along the depth, as many at once as the hardware takes; rows and
    columns are unrolled."""
    a, b = tile.matrix_type(op.a).shape, tile.matrix_type(op.b).shape
    (rows, depth), (_, columns) = a, b
    matrices = ctx.target.matrices[tile.matrix_type(op.a).element.bits]
    if arrangement.tensors and matrices.tensors_in_memory:
        product = _dot_in_memory(ctx, op, arrangement)
        if product is not None:
            return [product]
    size = arrangement.depth * FRAGMENT_SIZE
    left = _fragments(ctx, op.a, arrangement.left(a), arrangement.left((rows, size)), 1)
    right = _fragments(ctx, op.b, arrangement.right(b), arrangement.right((size, columns)), 0)

    def step(k: Number, acc: Value) -> Value:
        product = metal.Mma(
            left(k),
            right(k),
            acc,
            depth=arrangement.depth,
            transposed=arrangement.transposed,
            tensors=arrangement.tensors,
            tf32=op.tf32,
        )
        return ctx.b(product)

    return [_over_depth(ctx, op, depth // size, f32, step)]


def _dot_in_memory(ctx: Lowering, op: tile.Dot, arrangement: Arrangement) -> Value | None:
    """A product of factors that stay in threadgroup memory, if both are there, row by row."""
    a, b = op.a.type, op.b.type
    if not (isinstance(a, Staged) and isinstance(b, Staged)):
        return None
    if not (isinstance(a.layout, Layout) and isinstance(b.layout, Layout)):
        return None
    of_a, of_b = strides_of(a), strides_of(b)
    if (of_a[1], of_b[1]) != (1, 1):
        return None

    def start(layout: LinearLayout, axis: int, stride: int) -> Value:
        lanes = axis_images(layout, LANE, axis)
        part = ctx.thread_part([0] * len(lanes), axis_images(layout, SIMDGROUP, axis))
        return ctx.value(ctx.times(part, stride))

    product = metal.MmaShared(
        (a.shape[0] // arrangement.rows, b.shape[1] // arrangement.columns, a.shape[1]),
        (of_a[0], of_b[0]),
        ctx[op.a],
        start(arrangement.left(a.shape), 0, of_a[0]),
        ctx[op.b],
        start(arrangement.right(b.shape), 1, 1),
        cast(ctx, ctx[accumulated(op)], f32),
        tf32=op.tf32,
    )
    return cast(ctx, ctx.b(product), op.result.type.element)


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
        return staged_reader(ctx, ctx[operand], operand.type, part, axis, part.shape[axis])
    value = convert_layout(ctx, ctx[operand], tile_layout(operand), whole)
    return lambda k: ctx.part(value, k, width)


def _dot_of_scalars(ctx: Lowering, op: tile.Dot) -> Sequence[Value]:
    """Loop over the depth, a few terms at once: each lane reads its rows of one operand and its
    columns of the other from threadgroup memory, and adds the products in order."""
    layout, dtype = tile_layout(op.result), op.result.type.element
    carried = f32 if dtype.is_float else dtype
    depth = tile.matrix_type(op.a).shape[-1]
    terms, count = min(depth, TERMS_AT_ONCE), layout.size(REGISTER)
    left, right = (_scalars(ctx, x, layout, at, terms) for x, at in ((op.a, -1), (op.b, -2)))
    rows, columns = (_numbers(layout, at) for at in (-1, -2))
    width = 1 << sum(map(bool, columns))

    def step(k: Number, acc: Value) -> Value:
        a, b = (cast(ctx, part(k), carried) for part in (left, right))

        def element(i: Number) -> Sequence[Value]:
            total = ctx.part(acc, i, 1)
            row, column = ctx.linear_form(i, rows), ctx.linear_form(i, columns)
            for term in range(terms):
                x = ctx.part(a, ctx.add(ctx.times(row, terms), term), 1)
                y = ctx.part(b, ctx.add(column, term * width), 1)
                if carried.is_float:
                    total = ctx.b(math.Fma(x, y, total))
                else:
                    total = ctx.b(math.Add(total, ctx.b(math.Mul(x, y))))
            return [total]

        return ctx.each(count, 1, element)[0]

    return [_over_depth(ctx, op, depth // terms, carried, step)]


def _over_depth(
    ctx: Lowering,
    op: tile.Dot,
    steps: int,
    carried: DType,
    step: Callable[[Number, Value], Value],
) -> Value:
    """Add to the accumulator of a product in steps, by their number."""
    start = cast(ctx, ctx[accumulated(op)], carried)
    if steps == 1:
        return cast(ctx, step(0, start), op.result.type.element)
    body = Region(None, [i32, start.type])
    k, acc = body.arguments
    k.name, acc.name = "k", "acc"
    with ctx.b.inside(body):
        ctx.b.insert(Yield([step(k, acc)]))
    bounds = ctx.constant(0), ctx.constant(steps), ctx.constant(1)
    loop: Op = ctx.b.insert(For.create((*bounds, start), ((), False), (start.type,), (body,)))
    return cast(ctx, loop.results[0], op.result.type.element)


def _numbers(layout: LinearLayout, depth: int) -> list[int]:
    """The number of a register among those of an operand, by the bits of its number: registers of
    the result that differ only along the operand's axis of depth need the same of it."""
    step, numbers = 1, []
    for image in layout.images(REGISTER):
        differs = any(_along_depth(image, depth, 0))
        numbers.append(step if differs else 0)
        step *= 2 if differs else 1
    return numbers


def _along_depth(place: Sequence[int], depth: int, term: int) -> tuple[int, ...]:
    """The place in an operand of what a place in the result needs of it, for one term."""
    return tuple(term if axis - len(place) == depth else n for axis, n in enumerate(place))


def _scalars(
    ctx: Lowering, operand: Value, result: LinearLayout, depth: int, terms: int
) -> Callable[[Number], Value]:
    """Reads a lane's elements of an operand for a few terms, by the number of these: of the left
    operand, the depth of which is its last axis, row by row, of the right one term by term."""

    def images(dim: str) -> list[tuple[int, ...]]:
        return [_along_depth(image, depth, 0) for image in result.images(dim)]

    own = [image for image in images(REGISTER) if any(image)]
    nowhere = (0,) * len(result.shape)
    along = [_along_depth(nowhere, depth, 1 << bit) for bit in range(terms.bit_length() - 1)]
    part = LinearLayout.of(
        _along_depth(result.shape, depth, terms),
        register=[*along, *own] if depth == -1 else [*own, *along],
        lane=images(LANE),
        simdgroup=images(SIMDGROUP),
    )
    axis = len(result.shape) + depth
    if isinstance(operand.type, Staged):
        return staged_reader(ctx, ctx[operand], operand.type, part, axis, terms)
    layout = tile_layout(operand)
    memory = write_scratch(
        ctx, ctx[operand], layout, row_major(layout, operand.type_as(Tile).element.bytes)
    )
    shape, element = tile.matrix_type(operand).shape, memory.type.element
    strides = tuple(prod(shape[at + 1 :]) for at in range(len(shape)))
    there = Staged(shape, element, Layout(shape, strides))
    return staged_reader(ctx, memory, there, part, axis, terms)
