"""Lower staged tiles: written to threadgroup memory once, and read by several ops.

A loop that carries a tile which it stages has two buffers for it: while it reads one, it may write
the other for the next iteration.  If an iteration only hands on a tile that an earlier one staged,
this has the one buffer.

    for %lo, %hi, %s (%k: i32, %a: staged<64x32xf32, ...> = %first) {
      ...
      %next: staged<64x32xf32, ...> = tile.stage %x
      yield %next
    }

becomes

    %spare: threadgroup<2048xf32> = metal.alloc
    for %lo, %hi, %s (%k: i32, %a: threadgroup<2048xf32> = %first, %a_next: ... = %spare) {
      ...
      metal.store %a_next, ...
      yield %a_next, %a
    }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iris.errors import LayoutError, PipelineError
from iris.ir import metal, tile
from iris.ir.control import For
from iris.ir.core import Op, Value
from iris.ir.layout.bridge import to_linear
from iris.ir.layout.cute import Layout
from iris.ir.layout.linear import (
    FRAGMENT_ROWS,
    LANE,
    REGISTER,
    SIMDGROUP,
    LinearLayout,
    log2,
)
from iris.ir.layout.swizzle import Swizzled
from iris.ir.metal import FRAGMENT_LANES, FRAGMENT_SIZE
from iris.ir.types import Staged, Threadgroup
from iris.passes.metal.index_arithmetic import Number
from iris.passes.tile.layouts.access_layouts import run_along
from iris.passes.tile.lowering.context import Lowering, axis_images, lower, tile_layout


@lower(tile.Stage)
def lower_stage(ctx: Lowering, op: tile.Stage) -> Sequence[Value]:
    layout, type_ = tile_layout(op.x), op.result.type_as(Staged)
    argument = _carried_argument(op.result)
    if argument is None:
        memory = ctx.b(metal.Alloc(memory_type(type_)), op.result.name)
    else:
        memory = ctx.spares[argument]
    width = _access_width(type_, layout)
    address = _addresses(ctx, type_, layout, width)
    holder, value = ctx.holder(layout), ctx[op.x]

    def write(i: Number) -> Sequence[Value]:
        ctx.b.insert(metal.Store(memory, address(0, i), ctx.part(value, i, width), holder))
        return ()

    ctx.each(layout.size(REGISTER), width, write)
    return [memory]


def memory_type(type_: Staged) -> Threadgroup:
    return Threadgroup(type_.layout.cosize, type_.element)


def _carried_argument(staged: Value) -> Value | None:
    """The argument that carries a staged tile to the next iteration of its loop, if any."""
    loop = staged.parent_op
    if not isinstance(loop, For):
        return None
    return next((c.argument for c in loop.carried() if c.yielded is staged), None)


def replaced_arguments(loop: For) -> set[Value]:
    """The staged tiles that a loop carries and that its iterations stage anew."""
    return {
        c.argument
        for c in loop.carried()
        if isinstance(c.argument.type, Staged) and c.yielded.region is not loop.body
    }


def check_initial(loop: For, initial: Value) -> None:
    """Refuse a staged tile that is needed for more than a loop to begin with."""
    is_own = initial.home is loop.parent and isinstance(initial.op, (tile.Stage, For))
    if not is_own or len(initial.users) > 1 or loop.operands.count(initial) > 1:
        raise PipelineError(
            f"{initial!r} is not lowered: a loop writes over the staged tile that it begins with, "
            "which therefore must be staged for it alone, right before it"
        )


def second_buffer(ctx: Lowering, initial: Value) -> Value:
    """The second buffer of a loop for a staged tile, besides that of the initial tile."""
    if initial in ctx.spares:
        return ctx.spares[initial]
    return ctx.b(metal.Alloc(memory_type(initial.type_as(Staged))), initial.name)


def yielded_memories(ctx: Lowering, loop: For, end: Op) -> Sequence[Value]:
    """What an iteration yields: for each staged tile its buffer, and one that is free in the next
    iteration."""
    arguments = [v for v in loop.carried_arguments if isinstance(v.type, Staged)]
    memories = [ctx[v] for v in arguments] + [ctx.spares[v] for v in arguments if v in ctx.spares]
    taken = [ctx[v] for v in end.operands if isinstance(v.type, Staged)]
    free = [m for m in memories if m not in taken]
    if not {*taken} <= {*memories} or len({*taken}) < len(taken):
        raise PipelineError(
            f"@{ctx.source.symbol} is not lowered: each staged tile that a loop yields must be "
            "staged in that iteration, outside of branches, or carried into it, and be yielded once"
        )
    values = []
    for argument, value in zip(loop.carried_arguments, end.operands, strict=True):
        values.append(ctx[value])
        if argument in ctx.spares:
            spare = next(m for m in free if m.type is ctx[value].type)
            free.remove(spare)
            values.append(spare)
    return values


@lower(tile.Unstage)
def lower_unstage(ctx: Lowering, op: tile.Unstage) -> Sequence[Value]:
    type_ = op.x.type_as(Staged)
    return [staged_reader(ctx, ctx[op.x], type_, tile_layout(op.result), 0, 0)(0)]


def staged_reader(
    ctx: Lowering, memory: Value, type_: Staged, layout: LinearLayout, axis: int, size: int
) -> Callable[[Number], Value]:
    """A function that reads a part of a staged tile in a layout.

    Parts are numbered along an axis, and have `size` elements there.
    """
    width = _access_width(type_, layout)
    address = _addresses(ctx, type_, layout, width, axis, size)
    result = metal.registers(width, type_.element)

    def read(part: Number) -> Value:
        def each(i: Number) -> Sequence[Value]:
            return [ctx.b(metal.Load(memory, address(part, i), result=result))]

        return ctx.each(layout.size(REGISTER), width, each)[0]

    return read


def rows_reader(
    ctx: Lowering, staged: Value, layout: LinearLayout, axis: int
) -> Callable[[Number], Value] | None:
    """The same for a part that is made of fragments of matrices, loaded by rows; None if those are
    not each in one place."""
    type_ = staged.type_as(Staged)
    strides = strides_of(type_)
    if 1 not in strides or any(s % FRAGMENT_SIZE for s in strides if s != 1):
        return None
    if isinstance(type_.layout, Swizzled) and 1 << type_.layout.swizzle.base < FRAGMENT_SIZE:
        return None
    fastest = strides.index(1)
    steps = [[tuple(n * (a == along) for a in (0, 1)) for n in (1, 2, 4)] for along in (0, 1)]
    own = layout.images(REGISTER)
    if any(step not in (*own, *layout.images(LANE)) for step in (*steps[0], *steps[1])):
        return None  # a fragment is not of neighbours
    pair, *fragments = own
    # How far the rows of fragments are apart, by the bits of what FRAGMENT_ROWS says.
    distances: dict[tuple[int, ...], tuple[int, ...]] = {
        (1, 0): fragments[0] if fragments else (0, 0),
        (2, 0): fragments[1] if len(fragments) > 1 else (0, 0),
        **{(0, n): step for n, step in zip((1, 2, 4), steps[1 - fastest], strict=True)},
    }
    rows = LinearLayout.of(
        layout.shape,
        register=[*steps[fastest], *fragments[2:]],
        lane=[distances[image] for image in FRAGMENT_ROWS.images(LANE)],
        simdgroup=layout.images(SIMDGROUP),
    )
    address = _addresses(ctx, type_, rows, FRAGMENT_SIZE, axis, layout.shape[axis])
    width = min(layout.size(REGISTER), FRAGMENT_LANES * FRAGMENT_ROWS.shape[0])
    result = metal.registers(width, type_.element)
    transposed = pair != steps[fastest][0]

    def read(part: Number) -> Value:
        def each(i: Number) -> Sequence[Value]:
            load = metal.LoadRows(
                ctx[staged], address(part, i), transposed=transposed, result=result
            )
            return [ctx.b(load)]

        return ctx.each(layout.size(REGISTER), width, each)[0]

    return read


def strides_of(type_: Staged) -> tuple[int, ...]:
    """The distance between neighbours along each axis, before a swizzle."""
    layout = type_.layout
    if isinstance(layout, Swizzled):
        layout = layout.layout
    strides = layout.stride if isinstance(layout.stride, tuple) else (layout.stride,)
    plain = [s for s in strides if isinstance(s, int)]
    if len(plain) < len(strides):
        raise PipelineError(f"{type_} is not lowered: its layout has no stride for each axis")
    return tuple(plain)


def _access_width(type_: Staged, layout: LinearLayout) -> int:
    """How many registers one access moves: contiguous in memory, and aligned."""
    strides = strides_of(type_)
    if 1 not in strides:
        return 1
    fastest = strides.index(1)
    width = min(run_along(layout, fastest), metal.VECTOR_BYTES // type_.element.bytes)
    if isinstance(type_.layout, Swizzled):
        width = min(width, 1 << type_.layout.swizzle.base)
    while any(stride % width for stride in strides if stride != 1):
        width //= 2
    return width


def _addresses(
    ctx: Lowering, type_: Staged, layout: LinearLayout, width: int, axis: int = 0, size: int = 0
) -> Callable[[Number, Number], Value]:
    """A function from the number of a part, and of an access within it, to the address."""
    if isinstance(type_.layout, Layout):
        return _strided_addresses(ctx, strides_of(type_), layout, width, axis, size)
    return _swizzled_addresses(ctx, type_, layout, width, axis, size)


def _strided_addresses(
    ctx: Lowering, strides: Sequence[int], layout: LinearLayout, width: int, axis: int, size: int
) -> Callable[[Number, Number], Value]:
    """Compute addresses as sums over axes."""
    skip = width.bit_length() - 1
    base: Number = 0
    parts = []
    for along, stride in enumerate(strides):
        lanes, groups = axis_images(layout, LANE, along), axis_images(layout, SIMDGROUP, along)
        own = axis_images(layout, REGISTER, along)[skip:]
        thread = ctx.thread_part(lanes, groups)
        overlap = any(a & b for a in (*lanes, *groups) for b in own)
        if not overlap:
            base = ctx.add(base, ctx.times(thread, stride))
        parts.append((own, stride, thread if overlap else 0))

    def address(part: Number, i: Number) -> Value:
        offset = ctx.add(base, ctx.times(part, size * strides[axis]))
        for own, stride, thread in parts:
            offset = ctx.add(offset, ctx.times(ctx.xor(thread, ctx.linear_form(i, own)), stride))
        return ctx.value(offset)

    return address


def _swizzled_addresses(
    ctx: Lowering, type_: Staged, layout: LinearLayout, width: int, axis: int, size: int
) -> Callable[[Number, Number], Value]:
    """Compute addresses as exclusive ors of the contributions of bits."""
    memory = type_.layout
    try:
        to_linear(memory)
    except LayoutError as error:
        raise PipelineError(f"{type_} is not lowered: {error}") from error

    def images(dim: str) -> list[int]:
        return [memory(image) for image in layout.images(dim)]

    own = images(REGISTER)[width.bit_length() - 1 :]
    thread = ctx.thread_part(images(LANE), images(SIMDGROUP))
    along = [tuple(size << b if a == axis else 0 for a in range(memory.rank)) for b in range(32)]
    parts = (
        [memory(coordinates) for coordinates in along[: log2(type_.shape[axis] // size)]]
        if size
        else []
    )

    def address(part: Number, i: Number) -> Value:
        return ctx.value(
            ctx.xor(ctx.xor(thread, ctx.linear_form(part, parts)), ctx.linear_form(i, own))
        )

    return address
