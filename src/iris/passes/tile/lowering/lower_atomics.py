"""Lower atomic updates, one element at a time; collected sums go to threadgroup memory first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iris.ir import math, metal, tile
from iris.ir.control import For, If, While, Yield
from iris.ir.core import Op, Region, Value
from iris.ir.effects import asks_others
from iris.ir.kinds import AtomicKind, ReduceKind, identity
from iris.ir.layout.linear import REGISTER, LinearLayout
from iris.ir.math import Constant, Predicate
from iris.ir.metal import SIMDGROUP_WIDTH
from iris.ir.types import DType, Threadgroup, Tile, bool_, i32, u32
from iris.passes.metal.index_arithmetic import Number
from iris.passes.tile.check_target import check
from iris.passes.tile.lowering.context import Lowering, lower, tile_layout
from iris.passes.tile.lowering.convert_layout import convert_through_memory

# Updates of floats that the hardware lacks, as a function of the old element.
_COMBINE: dict[AtomicKind, type[math.Binary]] = {
    AtomicKind.ADD: math.Add,
    AtomicKind.MAX: math.MaxNum,
    AtomicKind.MIN: math.MinNum,
}


def lower_volatile_load(ctx: Lowering, op: tile.Load) -> Sequence[Value]:
    """Load each element once, as it may change between the loads of two threads."""
    base, dtype = ctx[op.base], op.result.type.element

    def read(offset: Value) -> Value:
        return ctx.b(metal.Load(base, offset, volatile=True, result=dtype))

    (found,) = _for_each_element(ctx, op, read)
    if op.mask is None or op.other is None:
        return [found]
    return [ctx.b(math.Select(ctx[op.mask], found, ctx[op.other]))]


@lower(tile.Atomic)
def lower_atomic(ctx: Lowering, op: tile.Atomic) -> Sequence[Value]:
    check(op, ctx.target)
    base = ctx[op.base]
    if op.bins:
        return _add_collected(ctx, op, base)

    def update(offset: Value, value: Value) -> Value:
        return _update(ctx, op.kind, base, offset, value)

    return _for_each_element(ctx, op, update, op.value)


def _update(ctx: Lowering, kind: AtomicKind, base: Value, offset: Value, value: Value) -> Value:
    """Combine an element with a value, and give the old one."""
    if value.type.element.is_float and kind in _COMBINE:
        combine = _COMBINE[kind]
        return _retry_update(ctx, base, offset, lambda old: ctx.b(combine(old, value)))
    return ctx.b(metal.Atomic(kind, base, offset, value))


def _add_collected(ctx: Lowering, op: tile.Atomic, base: Value) -> Sequence[Value]:
    """Add values up in threadgroup memory, then each sum to an element of the array."""
    dtype = op.result.type.element
    sums = ctx.b(metal.Alloc(Threadgroup(op.bins, dtype)), "sums")
    nothing = ctx.b(Constant(identity(ReduceKind.SUM, dtype), dtype))

    def clear(at: Value, inside: Value | None) -> None:
        ctx.b.insert(metal.Store(sums, at, nothing, inside))

    def collect(offset: Value, value: Value) -> Value:
        return _update(ctx, op.kind, sums, offset, value)

    def add(at: Value, inside: Value | None) -> None:
        found = ctx.b(metal.Load(sums, at, inside, nothing if inside else None, result=dtype))
        changed = ctx.compare(Predicate.NE, _bits(ctx, found), _bits(ctx, nothing))
        _guarded(ctx, changed, lambda: _update(ctx, op.kind, base, at, found), dtype)

    _for_each_bin(ctx, op.bins, clear)
    old = _for_each_element(ctx, op, collect, op.value)
    _for_each_bin(ctx, op.bins, add)
    return old


def _for_each_bin(ctx: Lowering, bins: int, act: Callable[[Value, Value | None], None]) -> None:
    """Divide bins among the threads of a program; tell which threads have one, if not all have."""
    threads = SIMDGROUP_WIDTH * ctx.simdgroups
    bits = [1 << n for n in range(threads.bit_length() - 1)]
    of_lane = SIMDGROUP_WIDTH.bit_length() - 1
    thread = ctx.thread_part(bits[:of_lane], bits[of_lane:])
    region = Region(None, (i32,))
    (first,) = region.arguments
    with ctx.b.inside(region):
        at = ctx.value(ctx.add(first, thread))
        act(at, ctx.compare(Predicate.LT, at, bins) if bins % threads else None)
        ctx.b.insert(Yield([]))
    bounds = ctx.constant(0), ctx.constant(bins), ctx.constant(threads)
    ctx.b.insert(For.create(bounds, ((), False), (), (region,)))


@lower(tile.AtomicCas)
def lower_atomic_cas(ctx: Lowering, op: tile.AtomicCas) -> Sequence[Value]:
    check(op, ctx.target)
    base = ctx[op.base]

    def update(offset: Value, expected: Value, value: Value) -> Value:
        return _compare_and_swap(ctx, base, offset, expected, value)

    return _for_each_element(ctx, op, update, op.expected, op.value)


def _for_each_element(
    ctx: Lowering,
    op: tile.Atomic | tile.AtomicCas | tile.Load,
    update: Callable[..., Value],
    *values: Value,
) -> Sequence[Value]:
    """Access memory once for each element, and give the old value to all threads that hold it."""
    dtype = op.result.type.element
    layout = tile_layout(op.result) if isinstance(op.result.type, Tile) else None
    holder = ctx.holder(layout)
    count = 1 if layout is None else layout.size(REGISTER)
    surplus = 0 if layout is None else layout.free_bits()[REGISTER]

    def body(i: Number) -> Sequence[Value]:
        mask = ctx.both(holder, None if op.mask is None else ctx.part(ctx[op.mask], i, 1))
        if surplus:
            mask = ctx.both(mask, ctx.compare(Predicate.EQ, ctx.mask(i, surplus), 0))

        def act() -> Value:
            return update(*[ctx.part(ctx[v], i, 1) for v in (op.offset, *values)])

        return [act() if mask is None else _guarded(ctx, mask, act, dtype)]

    ctx.fence()
    old = ctx.each(count, 1, body)[0]
    if asks_others(op):
        ctx.fence()
    if not op.result.users:
        return [old]
    return [_broadcast_result(ctx, old, layout)]


def _guarded(ctx: Lowering, mask: Value, act: Callable[[], Value], dtype: DType) -> Value:
    """Run `act` where a condition holds; give 0 elsewhere."""
    then, otherwise = Region(), Region()
    with ctx.b.inside(then):
        ctx.b.insert(Yield([act()]))
    with ctx.b.inside(otherwise):
        ctx.b.insert(Yield([ctx.constant(0, dtype)]))
    return ctx.b(If.create((mask,), (), (dtype,), (then, otherwise)))


def _broadcast_result(ctx: Lowering, old: Value, layout: LinearLayout | None) -> Value:
    """Send the result of the acting thread to all threads that hold the element."""
    if layout is None:
        bits = ctx.simdgroups.bit_length() - 1
        layout = LinearLayout.of((1,), register=[], lane=[0] * 5, simdgroup=[0] * bits)
    if not any(layout.free_bits().values()):
        return old
    return convert_through_memory(ctx, old, layout, layout)


def _retry_update(
    ctx: Lowering, base: Value, offset: Value, make: Callable[[Value], Value]
) -> Value:
    """Replace an element by a function of it, and retry while other threads interfere."""
    first = ctx.b(metal.AtomicLoad(base, offset))
    return _retry(ctx, base, offset, first, lambda old: (old, make(old)), lambda *_: None)


def _compare_and_swap(
    ctx: Lowering, base: Value, offset: Value, expected: Value, value: Value
) -> Value:
    """Replace an element if it equals the expected one; retry spurious failures."""

    def same(old: Value) -> Value:
        return ctx.compare(Predicate.EQ, _bits(ctx, old), _bits(ctx, expected))

    return _retry(ctx, base, offset, expected, lambda _: (expected, value), same)


def _bits(ctx: Lowering, x: Value) -> Value:
    return x if x.type is u32 else ctx.b(math.Bitcast(x, u32))


def _retry(
    ctx: Lowering,
    base: Value,
    offset: Value,
    first: Value,
    attempt: Callable[[Value], tuple[Value, Value]],
    worth: Callable[[Value], Value | None],
) -> Value:
    """Exchange until it succeeds, or is `worth` no further try; give the old element."""
    dtype = first.type
    condition, body = Region(None, (bool_, dtype)), Region(None, (bool_, dtype))
    again, old = condition.arguments
    again.name, old.name = "again", "old"
    with ctx.b.inside(condition):
        ctx.b.insert(Yield([again]))
    with ctx.b.inside(body):
        expected, new = attempt(body.arguments[1])
        exchange = metal.CompareExchange(base, offset, expected, new)
        ctx.b.insert(exchange)
        failed = ctx.b(math.Not(exchange.done))
        more = ctx.both(failed, worth(exchange.old))
        ctx.b.insert(Yield([more, exchange.old]))
    start = ctx.constant(1, bool_)
    loop = While.create((start, first), ((),), (bool_, dtype), (condition, body))
    done: Op = ctx.b.insert(loop)
    return done.results[1]
