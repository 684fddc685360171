"""Atomic updates of device memory, one element at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iris.ir import math, metal, tile
from iris.ir.control import If, While, Yield
from iris.ir.core import Op, Region, Value
from iris.ir.effects import asks_others
from iris.ir.kinds import AtomicKind
from iris.ir.layout.linear import REGISTER, LinearLayout
from iris.ir.math import Predicate, element_type
from iris.ir.types import DType, Tile, bool_, u32
from iris.passes.metal.numbers import Number
from iris.passes.tile.check_target import check
from iris.passes.tile.lowering.context import Lowering, lower, tile_layout
from iris.passes.tile.lowering.move import through_memory

# How the kinds that the hardware has not, of floats, make the new element.
_COMBINE: dict[AtomicKind, type[math.Binary]] = {
    AtomicKind.ADD: math.Add,
    AtomicKind.MAX: math.MaxNum,
    AtomicKind.MIN: math.MinNum,
}


def volatile_load(at: Lowering, op: tile.Load) -> Sequence[Value]:
    """Load each element once, as another thread might find something else there."""
    base, dtype = at[op.base], element_type(op.result.type).element

    def read(offset: Value) -> Value:
        return at.b(metal.Load(base, offset, volatile=True, result=dtype))

    (found,) = _each(at, op, read)
    if op.mask is None or op.other is None:
        return [found]
    return [at.b(math.Select(at[op.mask], found, at[op.other]))]


@lower(tile.Atomic)
def atomic(at: Lowering, op: tile.Atomic) -> Sequence[Value]:
    check(op, at.target)
    base = at[op.base]

    def update(offset: Value, value: Value) -> Value:
        if element_type(value.type).element.is_float and op.kind in _COMBINE:
            combine = _COMBINE[op.kind]
            return _by_exchange(at, base, offset, lambda old: at.b(combine(old, value)))
        return at.b(metal.Atomic(op.kind, base, offset, value))

    return _each(at, op, update, op.value)


@lower(tile.AtomicCas)
def atomic_cas(at: Lowering, op: tile.AtomicCas) -> Sequence[Value]:
    check(op, at.target)
    base = at[op.base]

    def update(offset: Value, expected: Value, value: Value) -> Value:
        return _compare_and_swap(at, base, offset, expected, value)

    return _each(at, op, update, op.expected, op.value)


def _each(
    at: Lowering,
    op: tile.Atomic | tile.AtomicCas | tile.Load,
    update: Callable[..., Value],
    *values: Value,
) -> Sequence[Value]:
    """Access an element once for each element of the operands; give what was there to all threads
    that have it."""
    dtype = element_type(op.result.type).element
    layout = tile_layout(op.result) if isinstance(op.result.type, Tile) else None
    holder = at.holder(layout)
    count = 1 if layout is None else layout.size(REGISTER)
    surplus = 0 if layout is None else layout.free_bits()[REGISTER]

    def body(i: Number) -> Sequence[Value]:
        mask = at.both(holder, None if op.mask is None else at.part(at[op.mask], i, 1))
        if surplus:
            mask = at.both(mask, at.compare(Predicate.EQ, at.mask(i, surplus), 0))

        def act() -> Value:
            return update(*[at.part(at[v], i, 1) for v in (op.offset, *values)])

        return [act() if mask is None else _where(at, mask, act, dtype)]

    at.fence()
    old = at.each(count, 1, body)[0]
    if asks_others(op):
        at.fence()
    if not op.result.users:
        return [old]
    return [_to_all(at, old, layout)]


def _where(at: Lowering, mask: Value, act: Callable[[], Value], dtype: DType) -> Value:
    """What an act gives where a condition holds, and 0 elsewhere."""
    then, otherwise = Region(), Region()
    with at.b.inside(then):
        at.b.insert(Yield([act()]))
    with at.b.inside(otherwise):
        at.b.insert(Yield([at.constant(0, dtype)]))
    return at.b(If.create((mask,), (), (dtype,), (then, otherwise)))


def _to_all(at: Lowering, old: Value, layout: LinearLayout | None) -> Value:
    """What the thread that acted has got, for all that hold the element."""
    if layout is None:
        bits = at.simdgroups.bit_length() - 1
        layout = LinearLayout.of((1,), register=[], lane=[0] * 5, simdgroup=[0] * bits)
    if not any(layout.free_bits().values()):
        return old
    return through_memory(at, old, layout, layout)


def _by_exchange(at: Lowering, base: Value, offset: Value, make: Callable[[Value], Value]) -> Value:
    """Replace an element by what is made of it, trying until no other thread was in between."""
    first = at.b(metal.AtomicLoad(base, offset))
    return _retry(at, base, offset, first, lambda old: (old, make(old)), lambda *_: None)


def _compare_and_swap(
    at: Lowering, base: Value, offset: Value, expected: Value, value: Value
) -> Value:
    """Replace an element if it is the expected one; a failure that has no reason is tried again."""

    def same(old: Value) -> Value:
        return at.compare(Predicate.EQ, _bits(at, old), _bits(at, expected))

    return _retry(at, base, offset, expected, lambda _: (expected, value), same)


def _bits(at: Lowering, x: Value) -> Value:
    return x if x.type is u32 else at.b(math.Bitcast(x, u32))


def _retry(
    at: Lowering,
    base: Value,
    offset: Value,
    first: Value,
    attempt: Callable[[Value], tuple[Value, Value]],
    worth: Callable[[Value], Value | None],
) -> Value:
    """Exchange until it is done, or not worth another try; gives the old element."""
    dtype = first.type
    condition, body = Region(None, (bool_, dtype)), Region(None, (bool_, dtype))
    again, old = condition.arguments
    again.name, old.name = "again", "old"
    with at.b.inside(condition):
        at.b.insert(Yield([again]))
    with at.b.inside(body):
        expected, new = attempt(body.arguments[1])
        exchange = metal.CompareExchange(base, offset, expected, new)
        at.b.insert(exchange)
        failed = at.b(math.Not(exchange.done))
        more = at.both(failed, worth(exchange.old))
        at.b.insert(Yield([more, exchange.old]))
    start = at.constant(1, bool_)
    loop = While.create((start, first), (), (bool_, dtype), (condition, body))
    done: Op = at.b.insert(loop)
    return done.results[1]
