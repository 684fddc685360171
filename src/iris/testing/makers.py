"""How each op of Tile IR is made in a random program: one rule per op.

Each gives an op that cannot go wrong: what could (a division by zero, a shift too far, a float
out of an integer's range) is guarded, and sums of floats are of small integers, so that they may
be made in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import permutations
from math import prod

from iris.ir import math, tile
from iris.ir.control import For, If, While, Yield
from iris.ir.core import Op, Region, Value
from iris.ir.declare import Constraint
from iris.ir.math import Predicate, element_type
from iris.ir.tile import AtomicKind, ReduceKind, ScanKind
from iris.ir.types import DTYPES, DType, ElementType, Tile, Type, bool_, f32, i32
from iris.testing.access import Place, block, other_name, place, revisit
from iris.testing.choices import Choices
from iris.testing.draft import MOST_ELEMENTS, Draft, Memory, make, odd_numbers

# What floats are cut to before they are summed, multiplied up, or made integers.
SUMMED, MULTIPLIED, CONVERTED = 8, 2, 100
SUMS_AT_MOST = 2**24
MOST_TRIPS = 4

ALL = tuple(DTYPES.values())


def accepted(constraint: Constraint) -> tuple[DType, ...]:
    return tuple([d for d in ALL if d in constraint])


NUMBERS = tuple([d for d in ALL if d is not bool_])
INTEGERS = tuple([d for d in ALL if d.is_integer])
ATOMIC = tuple([d for d in ALL if d.bits == 32])  # on every device


# The shared math.


@make(math.Constant)
def constant(cls: type[math.Constant], draft: Draft, choices: Choices) -> None:
    type_ = choices.of(draft.types(choices.of(draft.dtypes)))
    draft.add(math.Constant(choices.of(odd_numbers(type_.element)), type_))


@make(math.Unary, math.Binary, math.Fma)
def elementwise(cls: type[Op], draft: Draft, choices: Choices) -> None:
    """Operands of one type, whatever they are."""
    first = draft.some(accepted(cls.spec.fixed[0].constraint), choices)
    others = [draft.other(first, choices) for _ in cls.spec.fixed[1:]]
    draft.add(cls(first, *others))


@make(math.AssumeDivisible)
def assume_divisible(cls: type[math.AssumeDivisible], draft: Draft, choices: Choices) -> None:
    """A multiple of a power of two, which it stays when it overflows."""
    x = draft.some(INTEGERS, choices)
    divisor = choices.of((2, 16, 4))
    multiple = draft.put(math.Mul(x, draft.constant(divisor, element_type(x.type))))
    draft.add(math.AssumeDivisible(divisor, multiple))


@make(math.FloorDiv, math.Mod)
def divide(cls: type[math.Binary], draft: Draft, choices: Choices) -> None:
    """Integers by what is odd; or in a branch, or a loop, that is not entered if the divisor is
    zero."""
    if choices.flag():
        divide_if_not_zero(cls, draft, choices)
        return
    x = draft.some(NUMBERS, choices)
    type_ = element_type(x.type)
    divisor = draft.other(x, choices)
    if type_.element.is_integer:
        divisor = draft.put(math.Or(divisor, draft.constant(1, type_)))
    draft.add(cls(x, divisor))


def divide_if_not_zero(cls: type[math.Binary], draft: Draft, choices: Choices) -> None:
    x = draft.some(INTEGERS, choices, lambda t: not t.shape)
    type_ = element_type(x.type)
    divisor = draft.wrapped(draft.other(x, choices), MOST_TRIPS)
    if choices.flag():
        zero = draft.constant(0, type_)
        guard = If(draft.put(math.Compare(Predicate.NE, divisor, zero)), [type_])
        draft.add(guard)
        with draft.inside(guard.then):
            draft.builder.insert(Yield([draft.put(cls(x, divisor))]))
        with draft.inside(guard.otherwise):
            draft.builder.insert(Yield([zero]))
    else:
        with entered_if_not_zero(draft, divisor, x):
            draft.builder.insert(Yield([draft.put(cls(x, divisor))]))


@contextmanager
def entered_if_not_zero(draft: Draft, upper: Value, initial: Value) -> Iterator[None]:
    """A loop from 0 to a number, with something in it that is right only if that is not 0."""
    type_ = element_type(upper.type)
    loop = For(draft.constant(0, type_), upper, draft.constant(1, type_), [initial])
    draft.add(loop)
    with draft.inside(loop.body):
        yield


@make(math.Shl, math.Shr)
def shift(cls: type[math.Binary], draft: Draft, choices: Choices) -> None:
    x = draft.some(INTEGERS, choices)
    amount = draft.other(x, choices)
    draft.add(cls(x, draft.wrapped(amount, element_type(x.type).element.bits)))


@make(math.Compare)
def compare(cls: type[math.Compare], draft: Draft, choices: Choices) -> None:
    x = draft.some(ALL, choices)
    draft.add(math.Compare(choices.of(list(Predicate)), x, draft.other(x, choices)))


@make(math.Select)
def select(cls: type[math.Select], draft: Draft, choices: Choices) -> None:
    x = draft.some(ALL, choices)
    type_ = element_type(x.type)
    condition = draft.like(bool_ if choices.flag() else type_.with_element(bool_), choices)
    draft.add(math.Select(condition, x, draft.other(x, choices)))


@make(math.Cast)
def cast(cls: type[math.Cast], draft: Draft, choices: Choices) -> None:
    x = draft.some(ALL, choices)
    type_ = element_type(x.type)
    others = [d for d in draft.dtypes if d is not type_.element]
    target = choices.of(others or draft.all_dtypes)
    if type_.element.is_float and target.is_integer:
        x = draft.clamped(x, max(target.low, -CONVERTED), CONVERTED)
    draft.add(math.Cast(x, type_.with_element(target)))


@make(math.Bitcast)
def bitcast(cls: type[math.Bitcast], draft: Draft, choices: Choices) -> None:
    x = draft.some(ALL, choices)
    type_ = element_type(x.type)
    targets = [d for d in draft.all_dtypes if d.bits == type_.element.bits]
    target = choices.of(targets or [type_.element])
    if type_.element.is_float and not target.is_float:
        # Which bits a nan has is not defined, and so nothing may depend on it.
        x = draft.put(math.MaxNum(x, draft.constant(-1.0, type_)))
    draft.add(math.Bitcast(x, type_.with_element(target)))


# Control flow.


def fill(draft: Draft, region: Region, types: Sequence[Type], choices: Choices) -> None:
    """Some of the steps that follow, then what the region carries, and a store of what it would
    have made in vain."""
    with draft.inside(region):
        before = len(draft.visible)
        for _ in range(1 + choices.below(6)):
            draft.step()
        carried: list[Value] = []
        for type_ in types:
            last = carried[-1] if carried else None
            carried.append(draft.like(type_, choices, besides=last))
        unused = [v for v in draft.visible[before:] if not v.users and v not in carried]
        for value in unused[: -1 - choices.of((0, 6, 6, 6, 1)) : -1]:
            stored = element_type(value.type)
            memory = draft.own(stored.element, choices)
            write(draft, place(draft, memory, stored.shape, choices, distinct=True), value)
        draft.builder.insert(Yield(carried))


def carried(draft: Draft, choices: Choices) -> list[Value]:
    """None, one, or two, which may be of one type and so be confused."""
    number = choices.below(3)
    values = [draft.some(ALL, choices)] if number else []
    if number == 2:
        same = choices.flag()
        values.append(draft.other(values[0], choices) if same else draft.some(ALL, choices))
    return values


@make(If)
def branch(cls: type[If], draft: Draft, choices: Choices) -> None:
    op = If(draft.like(bool_, choices), [v.type for v in carried(draft, choices)])
    draft.builder.insert(op)
    for region in op.regions:
        fill(draft, region, [v.type for v in op.results], choices)
    finish(draft, op)


def finish(draft: Draft, op: Op) -> None:
    """Let what follows use what is carried out of an op that is in place already."""
    op.detach()
    draft.add(op)


@make(For)
def count(cls: type[For], draft: Draft, choices: Choices) -> None:
    """Few rounds, of a number that is a constant, a parameter, or each program's own."""
    dtype = choices.of([d for d in (i32, *draft.all_dtypes) if d.is_integer])
    lower = bound(draft, dtype, choices, (0, 0, 1, 0, 2))
    upper = bound(draft, dtype, choices, (2, 3, 1, 4, 3, 0))
    step = draft.constant(1 + choices.below(2), dtype)
    if choices.flag(4):
        step = draft.put(math.Or(draft.wrapped(lower, 2), draft.constant(1, dtype)))
    if dtype.is_signed and choices.flag(4):
        lower, upper, step = upper, lower, draft.constant(-1, dtype)
    op = For(lower, upper, step, carried(draft, choices))
    draft.builder.insert(op)
    fill(draft, op.body, [v.type for v in op.results], choices)
    finish(draft, op)


def bound(draft: Draft, dtype: DType, choices: Choices, constants: Sequence[int]) -> Value:
    style = choices.below(6)
    if style == 3:
        return draft.wrapped(draft.like(dtype, choices), MOST_TRIPS)
    if style == 2:
        own = draft.wrapped(draft.number, MOST_TRIPS)
        return own if dtype is i32 else draft.put(math.Cast(own, dtype))
    if style == 1:
        return draft.wrapped(draft.scalar(dtype), MOST_TRIPS)
    return draft.constant(choices.of(constants), dtype)


@make(While)
def repeat(cls: type[While], draft: Draft, choices: Choices) -> None:
    """A counter makes an end of it, if nothing else does before."""
    start = draft.small(choices, MOST_TRIPS)
    op = While([start, *carried(draft, choices)])
    draft.builder.insert(op)
    with draft.inside(op.condition):
        if choices.flag(4):
            draft.step()
        limit = draft.constant(choices.of((MOST_TRIPS, 2, 3, 1)), i32)
        more = draft.put(math.Compare(Predicate.LT, op.condition.arguments[0], limit))
        if choices.flag():
            more = draft.put(math.And(more, draft.like(bool_, choices)))
        draft.builder.insert(Yield([more]))
    fill(draft, op.body, [v.type for v in op.results], choices)
    with draft.inside(op.body):
        end = op.body.end
        end.detach()
        draft.memo.clear()  # of what stands before this body
        following = draft.put(math.Add(op.body.arguments[0], draft.constant(1, i32)))
        end.set_operands((following, *end.operands[1:]))
        draft.builder.insert(end)
    finish(draft, op)


# Where a program is, and the shapes of tiles.


@make(tile.ProgramId, tile.NumPrograms)
def place_in_grid(cls: type[Op], draft: Draft, choices: Choices) -> None:
    draft.add(cls(choices.below(3)))


@make(tile.Extent)
def extent(cls: type[tile.Extent], draft: Draft, choices: Choices) -> None:
    memory = choices.of([*draft.inputs, *draft.owned] or [draft.input(draft.dtypes[0])])
    draft.add(tile.Extent(choices.below(len(memory.recipe.shape)), memory.pointer))


@make(tile.Arange)
def arange(cls: type[tile.Arange], draft: Draft, choices: Choices) -> None:
    size = choices.of([*{max(shape) for shape in draft.shapes}, 4])
    dtypes = [d for d in (i32, *draft.dtypes) if d.is_integer]
    dtype = choices.of(dtypes)
    start = choices.of((0, 1, -2, 40))
    draft.add(tile.Arange(max(start, dtype.low), Tile((size,), dtype)))


@make(tile.Broadcast)
def broadcast(cls: type[tile.Broadcast], draft: Draft, choices: Choices) -> None:
    x = draft.some(ALL, choices, lambda t: not t.shape or 1 in t.shape)
    type_ = element_type(x.type)
    if not type_.shape:
        draft.add(tile.Broadcast(x, Tile(choices.of(draft.shapes), type_.element)))
        return
    shape = list(type_.shape)
    for axis, size in enumerate(shape):
        larger = choices.of((4, 8, 2, 16, 1))
        if size == 1 and prod(shape) * larger <= MOST_ELEMENTS:
            shape[axis] = larger
    draft.add(tile.Broadcast(x, Tile(tuple(shape), type_.element)))


@make(tile.ExpandDims)
def expand_dims(cls: type[tile.ExpandDims], draft: Draft, choices: Choices) -> None:
    x = draft.find(lambda t: 1 <= len(t.shape) <= 2, choices)
    if x is None:
        x = draft.lanes((8,))
    draft.add(tile.ExpandDims(choices.below(len(element_type(x.type).shape) + 1), x))


@make(tile.Reshape)
def reshape(cls: type[tile.Reshape], draft: Draft, choices: Choices) -> None:
    """Any shape of as many elements; of what is masked, which then could not be followed, only
    ones that add a size of 1."""
    x = draft.some_tile(ALL, choices)
    type_ = element_type(x.type)
    shapes = _shapes(prod(type_.shape))
    if x in draft.masked:
        shapes = [type_.shape, (*type_.shape, 1)] if len(type_.shape) < 3 else [type_.shape]
    draft.add(tile.Reshape(x, Tile(choices.of(shapes), type_.element)))


def _shapes(count: int) -> list[tuple[int, ...]]:
    powers = [1 << n for n in range(count.bit_length())]
    pairs = [(a, count // a) for a in powers]
    return [
        (count,),
        *pairs,
        *[(a, b, rest // b) for a, rest in pairs for b in powers if b <= rest],
    ]


@make(tile.Transpose)
def transpose(cls: type[tile.Transpose], draft: Draft, choices: Choices) -> None:
    x = draft.find(lambda t: len(t.shape) > 1, choices)
    if x is None:
        x = draft.leaf(Tile((4, 4), choices.of(draft.dtypes)))
    same, *others = permutations(range(len(element_type(x.type).shape)))
    draft.add(tile.Transpose(choices.of([*others[::-1] * 3, same]), x))


# Memory.


def readable(draft: Draft, dtype: DType, choices: Choices) -> Memory:
    return draft.own(dtype, choices) if choices.flag() else draft.input(dtype, choices)


def some_type(draft: Draft, choices: Choices) -> ElementType:
    types = draft.types(choices.of(draft.dtypes))
    return choices.of([*types[1:], types[0]])


def place_to_read(draft: Draft, choices: Choices) -> tuple[Place, ElementType]:
    found = revisit(draft, choices, distinct=False)
    if found is None:
        type_ = some_type(draft, choices)
        memory = readable(draft, type_.element, choices)
        found = place(draft, memory, type_.shape, choices, distinct=False)
    return found, found.type


@make(tile.Load)
def load(cls: type[tile.Load], draft: Draft, choices: Choices) -> None:
    if choices.flag(8):
        load_in_loop(draft, choices)
        return
    found, type_ = place_to_read(draft, choices)
    other = None if found.mask is None else draft.like(type_, choices)
    op = tile.Load(found.memory.pointer, found.offset, found.mask, other)
    draft.add(op)
    if found.mask is None:
        draft.learn(op.result, found.memory)


def load_in_loop(draft: Draft, choices: Choices) -> None:
    """The element before the one at the end of the loop, if there is one."""
    memory = draft.input(choices.of(draft.dtypes), choices)
    upper = draft.small(choices, min(memory.size, MOST_TRIPS))
    with entered_if_not_zero(draft, upper, draft.scalar(memory.dtype)):
        index = draft.put(math.Sub(upper, draft.constant(1, i32)))
        draft.builder.insert(Yield([draft.put(tile.Load(memory.pointer, index))]))


@make(tile.MaskedLoad)
def masked_load(cls: type[tile.MaskedLoad], draft: Draft, choices: Choices) -> None:
    found, type_ = place_to_read(draft, choices)
    mask = found.mask
    if mask is None:
        mask = draft.like(type_.with_element(bool_), choices)
    draft.add(tile.MaskedLoad(found.memory.pointer, found.offset, mask))


def place_to_write(draft: Draft, choices: Choices, dtypes: Sequence[DType]) -> tuple[Place, Value]:
    """Where in what is a program's own, and what of these dtypes goes there."""
    found = revisit(draft, choices, distinct=True)
    if found is not None and found.memory.dtype in dtypes:
        return found, draft.like(found.type, choices)
    value = draft.some(dtypes, choices)
    type_ = element_type(value.type)
    memory = draft.own(type_.element, choices)
    return place(draft, memory, type_.shape, choices, distinct=True), value


@make(tile.Store)
def store(cls: type[tile.Store], draft: Draft, choices: Choices) -> None:
    style = choices.below(4)
    found, value = place_to_write(draft, choices, ALL)
    if style == 3:
        store_in_loop(draft, found, value, choices)
    elif style == 2:
        # Again what was there, which may be what it was before, or not.
        before = read(draft, other_name(draft, found, choices))
        write(draft, found, value)
        draft.add(before.clone({}))
    else:
        write(draft, found, value)


def store_in_loop(draft: Draft, place: Place, value: Value, choices: Choices) -> None:
    """A loop that reads where it has written in the round before, or only seems to."""
    source = other_name(draft, place, choices)
    rounds = draft.constant(choices.of((2, 3, 1)), i32)
    step = draft.constant(1, i32)
    loop = For(draft.constant(0, i32), rounds, step, [value])
    draft.builder.insert(loop)
    with draft.inside(loop.body):
        seen = read(draft, source)
        draft.step()
        write(draft, place, draft.like(value.type, choices))
        draft.builder.insert(Yield([seen.result]))
    finish(draft, loop)


def read(draft: Draft, place: Place) -> tile.Load:
    type_ = place.type
    other = None if place.mask is None else draft.leaf(type_)
    op = tile.Load(place.memory.pointer, place.offset, place.mask, other)
    draft.add(op)
    return op


def write(draft: Draft, place: Place, value: Value) -> None:
    draft.builder.insert(tile.Store(place.memory.pointer, place.offset, value, place.mask))


@make(tile.LoadTile)
def load_tile(cls: type[tile.LoadTile], draft: Draft, choices: Choices) -> None:
    type_ = Tile(choices.of(draft.shapes), choices.of(draft.dtypes))
    memory = readable(draft, type_.element, choices)
    offsets, strides, bounds, limit = block(draft, memory, type_.shape, choices)
    draft.add(tile.LoadTile(memory.pointer, limit, offsets, strides, bounds, type_))


@make(tile.StoreTile)
def store_tile(cls: type[tile.StoreTile], draft: Draft, choices: Choices) -> None:
    value = draft.some_tile(ALL, choices)
    type_ = element_type(value.type)
    memory = draft.own(type_.element, choices)
    offsets, strides, bounds, limit = block(draft, memory, type_.shape, choices)
    op = tile.StoreTile(memory.pointer, value, limit, offsets, strides, bounds)
    draft.builder.insert(op)


@make(tile.Atomic)
def atomic(cls: type[tile.Atomic], draft: Draft, choices: Choices) -> None:
    """Of a program's own elements, or of ones that all programs update."""
    if choices.flag():
        found, value = place_to_write(draft, choices, ATOMIC)
        kind = choices.of([*kinds_of(found.memory.dtype), AtomicKind.EXCHANGE])
        draft.add(tile.Atomic(kind, found.memory.pointer, found.offset, value, found.mask))
    else:
        count_up(draft, choices)


def kinds_of(dtype: DType) -> list[AtomicKind]:
    """The kinds of which the order does not matter."""
    kinds = [AtomicKind.ADD, AtomicKind.MAX, AtomicKind.MIN]
    return kinds + ([] if dtype.is_float else [AtomicKind.AND, AtomicKind.OR, AtomicKind.XOR])


def count_up(draft: Draft, choices: Choices) -> None:
    """All programs update an array in one way only, and do not use what was there before."""
    value = draft.some(ATOMIC, choices)
    type_ = element_type(value.type)
    kind = choices.of(kinds_of(type_.element))
    if kind is AtomicKind.ADD:
        value = draft.exact(value, SUMMED, SUMMED)
    memory = draft.counter(type_.element, kind)
    found = place(draft, memory, type_.shape, choices, distinct=False)
    draft.put(tile.Atomic(kind, memory.pointer, found.offset, value, found.mask))


@make(tile.AtomicCas)
def atomic_cas(cls: type[tile.AtomicCas], draft: Draft, choices: Choices) -> None:
    found, value = place_to_write(draft, choices, ATOMIC)
    expected = draft.like(value.type, choices)
    if found.memory.dtype.is_float:  # bits are compared, and those of a nan are not defined
        low = draft.constant(-1.0, element_type(value.type))
        expected = draft.put(math.MaxNum(expected, low))
    draft.add(tile.AtomicCas(found.memory.pointer, found.offset, expected, value, found.mask))


# What combines elements.


@make(tile.Dot)
def dot(cls: type[tile.Dot], draft: Draft, choices: Choices) -> None:
    a = draft.find(lambda t: len(t.shape) == 2 and t.element is not bool_, choices)
    if a is None or choices.flag():
        numbers = [d for d in draft.dtypes if d is not bool_] or [i32]
        dtype = choices.of([*numbers, *[d for d in numbers if d.is_float] * 2])
        a = draft.leaf(Tile((choices.of((8, 16, 8, 4)), choices.of((8, 16, 8, 2))), dtype))
    rows, depth = element_type(a.type).shape
    dtype = element_type(a.type).element
    b = draft.find(
        lambda t: (
            t.shape[:1] == (depth,)
            and len(t.shape) == 2
            and t.element is dtype
            and rows * t.shape[1] <= MOST_ELEMENTS
        ),
        choices,
        besides=a,
    )
    if b is None:
        columns = choices.of((8, depth, 16, 4, 8, 1))
        fits = max(rows, depth) * columns <= MOST_ELEMENTS
        b = draft.leaf(Tile((depth, columns if fits else 1), dtype))
    columns = element_type(b.type).shape[1]
    a, b = (draft.exact(x, SUMMED, SUMMED) for x in (a, b))
    acc = None
    if choices.flag():
        like = [d for d in draft.dtypes if d is not bool_ and d.is_float is dtype.is_float]
        usual = f32 if dtype.is_float else i32
        acc = draft.like(Tile((rows, columns), choices.of([usual, *like])), choices)
        acc = draft.exact(acc, SUMMED, SUMS_AT_MOST - depth * SUMMED**2)
    op = tile.Dot(a, b, acc)
    draft.add(op)
    if acc is None and dtype.is_float:
        draft.bounds[op.result] = depth * SUMMED**2


@make(tile.Reduce)
def reduce(cls: type[tile.Reduce], draft: Draft, choices: Choices) -> None:
    x = draft.some_tile(ALL, choices)
    type_ = element_type(x.type)
    truth = (ReduceKind.ANY, ReduceKind.ALL)
    of_bools = type_.element is bool_
    kind = choices.of([k for k in ReduceKind if (k in truth) is of_bools])
    axis = choices.below(len(type_.shape))
    x = summable(draft, x, kind.value, type_.shape[axis])
    draft.add(tile.Reduce(kind, axis, x))


@make(tile.Scan)
def scan(cls: type[tile.Scan], draft: Draft, choices: Choices) -> None:
    x = draft.some_tile(NUMBERS, choices)
    kind = choices.of(list(ScanKind))
    shape = element_type(x.type).shape
    axis = choices.below(len(shape))
    draft.add(tile.Scan(kind, axis, summable(draft, x, kind.value, shape[axis])))


def summable(draft: Draft, x: Value, kind: str, count: int) -> Value:
    """The operand of a reduction or scan, such that it does not matter in which order."""
    if kind == "sum":
        return draft.exact(x, SUMMED, SUMS_AT_MOST // count)
    if kind == "prod":  # of powers of two there is nothing to round
        return draft.exact(x, MULTIPLIED, MULTIPLIED)
    return x


# Reports.


@make(tile.Assert)
def check(cls: type[tile.Assert], draft: Draft, choices: Choices) -> None:
    """Something that holds: a condition or its negation."""
    condition = draft.some((bool_,), choices)
    either = draft.put(math.Or(condition, draft.put(math.Not(condition))))
    draft.builder.insert(tile.Assert("one or the other", either))


@make(tile.Print)
def report(cls: type[tile.Print], draft: Draft, choices: Choices) -> None:
    few = [draft.some(ALL, choices, lambda t: prod(t.shape) <= 8) for _ in range(choices.below(3))]
    draft.builder.insert(tile.Print("here", few))
