"""How each op of Metal IR that touches no memory is made in a random program: one rule per op,
none of which can go wrong, as in `elementwise.py`."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import math, metal
from iris.ir.control import For, If, While, Yield
from iris.ir.core import Op, Region, Value
from iris.ir.math import Predicate, element_type
from iris.ir.metal import SIMDGROUP_WIDTH, count_of, registers
from iris.ir.types import (
    DType,
    ElementType,
    Registers,
    Threadgroup,
    Tile,
    Type,
    bool_,
    f32,
    i32,
)
from iris.ir.uniformity import SIMDGROUP, THREADGROUP, VARYING, Uniformity
from iris.testing.choices import Choices
from iris.testing.draft import special_number
from iris.testing.elementwise import ALL, INTEGERS, SUMMED, SUMS_AT_MOST
from iris.testing.metal_memory_makers import exchange, share_after, share_before
from iris.testing.metals import (
    MOST_REGISTERS,
    MOST_TRIPS,
    OWN,
    Memory,
    MetalDraft,
    Round,
    make_metal,
)

LEVELS = (VARYING, SIMDGROUP, THREADGROUP)


# Control flow.


def fill(
    draft: MetalDraft,
    region: Region,
    guard: Uniformity,
    carried: Sequence[tuple[Type, Uniformity]],
    choices: Choices,
    *,
    latch: bool | None = None,
    given: Sequence[Value] = (),
) -> None:
    """Some of the steps that follow, then what the region carries, and a store of what it would
    have made in vain.  In a loop, `latch` says whether a barrier ends each iteration, and `given`
    holds the carried values that the iteration starts with."""
    with draft.under(region, guard):
        before = len(draft.visible)
        carries = any(isinstance(v.type, Threadgroup) for v in region.arguments)
        if draft.flow is THREADGROUP and (carries or choices.flag() or not draft.steps):
            exchange(draft, choices)
        for _ in range(1 + choices.below(6)):
            draft.step()
        values = [draft.like_most(type_, level, choices) for type_, level in carried]
        if given and choices.flag():
            values = [turned(draft, given, number, choices) for number in range(len(given))]
        unused = [v for v in draft.visible[before:] if not v.users and v not in values]
        for value in unused[: -1 - choices.of((0, 6, 6, 1)) : -1]:
            keep(draft, value, choices)
        if latch:
            scope = draft.barrier and draft.hazards.latch(draft.barrier)
            if scope is not None:
                draft.meet(scope)
        draft.builder.insert(Yield(values))


def turned(draft: MetalDraft, given: Sequence[Value], number: int, choices: Choices) -> Value:
    """Make the next value of a carried variable from the current ones, as in `a, b = b, b + a`."""
    old = given[number]
    type_, level = element_type(old.type), draft.level_of(old)
    like = [v for v in given if v.type is type_ and draft.level_of(v) <= level and v is not old]
    other = choices.of(like[::-1]) if like else draft.like_most(type_, level, choices)
    style = choices.below(6)
    if style < 2:
        return other
    count = count_of(type_)
    if style == 2 and count > 1 and choices.flag():  # turned round
        first = choices.of((1, 2, 4))
        return draft.put(metal.take([(first + i) % count for i in range(count)], old))
    if style == 2 and count > 1 and type_.element is not bool_:  # each with one of them
        one = draft.put(metal.take((choices.below(count),), old))
        other = draft.put(metal.Splat(one, type_))
    cls = math.Xor if type_.element is bool_ else choices.of((math.Add, math.Sub, math.Mul))
    one, two = (old, other) if style < 5 else (other, old)
    return draft.put(cls(one, two))


def keep(draft: MetalDraft, value: Value, choices: Choices) -> None:
    """Store a value where no other thread does."""
    count = count_of(value.type)
    if draft.quiet or count > OWN:
        return
    base = draft.own(element_type(value.type).element, choices)
    draft.store_each(base, value, draft.times(draft.number, OWN))


def carried(draft: MetalDraft, choices: Choices) -> list[Value]:
    """None or some, which may be of one type and so be confused."""
    number = 0 if draft.short and choices.flag() else choices.of((0, 1, 2, 2, 1, 3))
    values = [draft.some(ALL, choices)] if number else []
    while len(values) < number:
        same = choices.flag()
        values.append(draft.other(values[0], choices) if same else draft.some(ALL, choices))
    return values


@make_metal(If)
def branch(cls: type[If], draft: MetalDraft, choices: Choices) -> None:
    share_before(draft, choices)
    condition = draft.guard(choices)
    guard = draft.level_of(condition)
    types = [v.type for v in carried(draft, choices)]
    op = draft.builder.insert(If(condition, types))
    if types and choices.flag(5):  # one or the other
        for region in op.regions:
            with draft.inside(region):
                draft.builder.insert(Yield([either(draft, t, choices) for t in types]))
        draft.carry_out(op, VARYING)
        return
    before = draft.hazards.copy()
    fill(draft, op.then, guard, [(t, VARYING) for t in types], choices)
    after, draft.hazards = draft.hazards, before
    if guard is not THREADGROUP:  # some threads are in the one branch while others are in this
        draft.hazards.join(after)
    fill(draft, op.otherwise, guard, [(t, VARYING) for t in types], choices)
    draft.hazards.join(after)
    ends = [region.end.operands for region in op.regions]
    levels = [draft.level_of(v) for end in ends for v in end]
    draft.carry_out(op, max([guard, *levels]))
    share_after(draft, choices)


def either(draft: MetalDraft, type_: Type, choices: Choices) -> Value:
    """A value that is there, or a number."""
    value = draft.find(lambda t: t is type_, choices)
    if value is not None and choices.below(3):
        return value
    type_ = element_type(type_)
    return draft.constant(special_number(type_.element, choices), type_)


@make_metal(For)
def count(cls: type[For], draft: MetalDraft, choices: Choices) -> None:
    """Few turns, as many for each thread, each simdgroup, or all."""
    integers = [d for d in draft.all_dtypes if d.is_integer]
    dtype = choices.of([*[i32] * (1 + len(integers)), *integers])
    share_before(draft, choices)
    lower = bound(draft, dtype, choices, (0, 0, 1, 0, 2))
    upper = bound(draft, dtype, choices, (2, 3, 1, 4, 3, 0))
    step = draft.constant(1 + choices.below(2), dtype)
    if choices.flag(8):  # to the last numbers that there are
        lower, upper = (draft.constant(dtype.high - n, dtype) for n in (choices.of((3, 4)), 0))
    is_down = may_go_down = dtype.is_signed and choices.flag(4)
    if is_down:
        lower, upper, step = upper, lower, draft.constant(choices.of((-1, -1, -2)), dtype)
    elif choices.flag(8):
        step, may_go_down = draft.scalar(dtype), dtype.is_signed
    guard = max(draft.level_of(lower), draft.level_of(upper))
    initial = carried(draft, choices)
    memories = pair(draft, choices) if max(guard, draft.flow) is THREADGROUP else []
    op = For(lower, upper, step, [*initial, *[m.base for m in memories]])
    draft.builder.insert(op)
    number, *arguments = op.body.arguments
    levels = [draft.level_of(v) for v in initial]
    draft.levels[number] = guard
    draft.levels.update(zip(arguments, levels, strict=False))
    bounds = [b.op.value if isinstance(b.op, math.Constant) else 3 for b in (lower, upper)]
    turn = [Round(number, int(max(bounds)) + may_go_down)] if dtype is i32 else []
    if max(bounds) > MOST_TRIPS:
        turn = []
    with draft.repeated(guard, choices) as latch:
        inner = draft.shared
        draft.shared = draft.renamed(memories, arguments[len(initial) :])
        draft.rounds += turn
        types = [(v.type, level) for v, level in zip(initial, levels, strict=True)]
        given = arguments[: len(initial)]
        fill(draft, op.body, guard, types, choices, latch=latch, given=given)
        draft.shared = inner
        del draft.rounds[len(draft.rounds) - len(turn) :]
    turned = arguments[len(initial) :][::-1]
    op.body.end.set_operands((*op.body.end.operands, *turned))
    draft.carry_out(op, max([guard, *levels]))
    draft.shared = draft.renamed(memories, op.results[len(initial) :])
    share_after(draft, choices)


def pair(draft: MetalDraft, choices: Choices) -> list[Memory]:
    """Two allocations of one type, which a loop may carry in turns; or none."""
    if not choices.flag():
        return []
    known = [m for m in draft.shared if m.start is None]
    for one in known[::-1]:
        for other in known[::-1]:
            if one.base.type is other.base.type and are_apart(one, other):
                return [one, other]
    return []


def are_apart(one: Memory, other: Memory) -> bool:
    """Whether memory is of other allocations, or of other parts of one."""
    if not one.roots & other.roots:
        return True
    distance = abs(one.first - other.first)
    return one.roots == other.roots and distance >= one.size * one.dtype.bytes


def bound(draft: MetalDraft, dtype: DType, choices: Choices, constants: Sequence[int]) -> Value:
    style = choices.below(8)
    if draft.short and style in (2, 4):
        style = 0
    if style == 4:
        return draft.wrapped(draft.like(dtype, choices), MOST_TRIPS)
    if style == 3:
        return draft.wrapped(draft.scalar(dtype), MOST_TRIPS)
    if style in (1, 2):
        number = draft.wrapped(draft.simdgroup if style == 2 else draft.program, MOST_TRIPS)
        return number if dtype is i32 else draft.put(math.Cast(number, dtype))
    return draft.constant(choices.of(constants), dtype)


@make_metal(While)
def repeat(cls: type[While], draft: MetalDraft, choices: Choices) -> None:
    """A counter makes an end of it, if nothing else does before."""
    share_before(draft, choices)
    if draft.short:
        start = draft.constant(choices.below(2), i32)
    else:
        start = draft.wrapped(draft.like_most(i32, choices.of(LEVELS), choices), MOST_TRIPS)
    initial = [start, *carried(draft, choices)]
    op = draft.builder.insert(While(initial))
    levels = [draft.level_of(v) for v in initial]
    rounds = [Round(r.arguments[0], MOST_TRIPS + 1 - i) for i, r in enumerate(op.regions)]
    for region in op.regions:
        draft.levels.update(zip(region.arguments, levels, strict=True))
    in_while, draft.in_while = draft.in_while, True
    types = [(v.type, level) for v, level in zip(initial, levels, strict=True)]
    if levels[0] is THREADGROUP and choices.flag():
        guard = THREADGROUP
        with draft.repeated(guard, choices) as latch:
            with draft.under(op.condition, guard):
                draft.rounds.append(rounds[0])
                if choices.flag():
                    exchange(draft, choices)
                else:
                    make_metal[metal.Load](metal.Load, draft, choices)
                ask(draft, op, guard, choices)
            asked = draft.hazards.copy()
            draft.rounds.append(rounds[1])
            given = op.body.arguments
            fill(draft, op.body, guard, types, choices, latch=latch, given=given)
        draft.hazards.join(asked)  # which is what comes last
    else:
        with draft.quietly(), draft.under(op.condition, VARYING):
            if choices.flag(4):
                draft.step()
            guard = ask(draft, op, choices.of(LEVELS), choices)
        with draft.repeated(guard, choices) as latch:
            draft.rounds.append(rounds[1])
            fill(draft, op.body, guard, types, choices, latch=latch, given=op.body.arguments)
    draft.rounds.pop()
    with draft.under(op.body, guard):
        end = op.body.end
        end.detach()
        draft.memo.clear()  # of what stands before this body
        following = draft.put(math.Add(op.body.arguments[0], draft.constant(1, i32)))
        end.set_operands((following, *end.operands[1:]))
        draft.builder.insert(end)
    draft.in_while = in_while
    draft.carry_out(op, max([guard, *levels]))
    share_after(draft, choices)


def ask(draft: MetalDraft, op: While, most: Uniformity, choices: Choices) -> Uniformity:
    """The end of a loop's condition; gives how many threads are sure to have it alike."""
    limit = draft.constant(choices.of((MOST_TRIPS, 2, 3, 1)), i32)
    more = draft.put(math.Compare(Predicate.LT, op.condition.arguments[0], limit))
    if choices.flag(3) and not draft.short:
        more = draft.put(math.And(more, draft.like_most(bool_, most, choices)))
    draft.builder.insert(Yield([more]))
    return draft.level_of(more)


@make_metal(metal.Foreach)
def each(cls: type[metal.Foreach], draft: MetalDraft, choices: Choices) -> None:
    """Parts of register arrays, each made into something; or of an array that a loop carries, whose
    next iteration has what this one made."""
    x = draft.some(ALL, choices, lambda t: bool(t.shape))
    if not choices.flag(3):
        draft.carry_out(made_of_parts(draft, x, choices), VARYING)
        return
    zero, one = (draft.constant(n, i32) for n in (0, 1))
    loop = draft.builder.insert(For(zero, draft.constant(choices.of((1, 2)), i32), one, [x]))
    number, array = loop.body.arguments
    draft.levels[number] = THREADGROUP
    with draft.quietly(), draft.under(loop.body, THREADGROUP):
        draft.builder.insert(Yield(made_of_parts(draft, array, choices).results[:1]))
    draft.carry_out(loop, VARYING)


def made_of_parts(draft: MetalDraft, x: Value, choices: Choices) -> metal.Foreach:
    """An array that is made of another, part by part, with no use of what is written."""
    whole, element = count_of(x.type), element_type(x.type).element
    number = choices.of([n for n in (whole, 4, 2, 1) if whole % n == 0])
    types = [registers(whole // number, element)]
    if choices.flag():
        types.append(registers(1 + choices.below(2), choices.of(draft.dtypes)))
    wholes = [Registers(number * count_of(t), t.element) for t in types]
    op = draft.builder.insert(metal.Foreach(number, wholes))
    draft.levels[op.body.arguments[0]] = THREADGROUP
    with draft.quietly(), draft.under(op.body, THREADGROUP):
        draft.add(metal.Slice(x, op.body.arguments[0], types[0]))
        if choices.flag():
            out_of_step(draft, draft.visible[-1], op, choices)
        for _ in range(1 + choices.below(4)):
            draft.step()
        draft.builder.insert(Yield([draft.like(t, choices) for t in types]))
    return op


def out_of_step(draft: MetalDraft, own: Value, op: metal.Foreach, choices: Choices) -> None:
    """The part whose turn it is, and another one: counted from the end, or a shorter one."""
    x, turn, type_ = own.op.operands[0], op.body.arguments[0], element_type(own.type)  # type: ignore[union-attr]
    width = count_of(type_)
    if width % 2 == 0 and choices.below(3):
        half = draft.put(metal.Slice(x, turn, registers(width // 2, type_.element)))
        other = draft.put(metal.join([half, half]))
    else:
        turn = draft.put(math.Sub(draft.constant(op.count - 1, i32), turn))
        other = draft.put(metal.Slice(x, turn, type_))
    draft.add((math.Xor if type_.element is bool_ else math.Add)(own, other))


# Where a thread is.


@make_metal(metal.Lane, metal.Simdgroup)
def position(cls: type[Op], draft: MetalDraft, choices: Choices) -> None:
    draft.add(cls())


@make_metal(metal.ThreadgroupId, metal.NumThreadgroups)
def position_in_grid(cls: type[Op], draft: MetalDraft, choices: Choices) -> None:
    draft.add(cls(choices.below(3)))


@make_metal(metal.Extent)
def extent(cls: type[metal.Extent], draft: MetalDraft, choices: Choices) -> None:
    pointer, recipe = draft.input(choices.of(draft.dtypes), choices)
    draft.add(metal.Extent(choices.below(len(recipe.shape)), pointer))


# Register arrays.


def array(draft: MetalDraft, choices: Choices) -> tuple[Value, Registers]:
    x = draft.some(ALL, choices, lambda t: bool(t.shape))
    assert isinstance(x.type, Registers)
    return x, x.type


@make_metal(metal.Splat)
def splat(cls: type[metal.Splat], draft: MetalDraft, choices: Choices) -> None:
    x = draft.some(ALL, choices, lambda t: not t.shape)
    draft.add(metal.Splat(x, Registers(choices.of(draft.counts), element_type(x.type).element)))


@make_metal(metal.Literal)
def literal(cls: type[metal.Literal], draft: MetalDraft, choices: Choices) -> None:
    dtype = integer(draft, choices)
    count = choices.of(draft.counts)
    numbers = (0, 1, 2, dtype.low, dtype.high, 5, 7)
    values = tuple([choices.of(numbers) for _ in range(count)])
    draft.add(metal.Literal(values, Registers(count, dtype)))


@make_metal(metal.Pattern)
def pattern(cls: type[metal.Pattern], draft: MetalDraft, choices: Choices) -> None:
    dtype = integer(draft, choices)
    images = tuple([choices.of((1, 2, 4, 0, 64, 3)) for _ in range(1 + choices.below(4))])
    draft.add(metal.Pattern(images, Registers(1 << len(images), dtype)))


def integer(draft: MetalDraft, choices: Choices) -> DType:
    return choices.of([d for d in (i32, *draft.dtypes) if d.is_integer])


@make_metal(metal.Take)
def take(cls: type[metal.Take], draft: MetalDraft, choices: Choices) -> None:
    """Take any elements of an array, or every n-th; often of a `join` or another `take`."""
    x, _ = array(draft, choices)
    made = [v for v in draft.visible if isinstance(v.op, metal.Join | metal.Take)]
    made = [v for v in made if element_type(v.type).shape]
    if made and choices.flag():
        x = made[-1 - choices.below(min(len(made), 2))]
    start, size = 0, count_of(x.type)
    if isinstance(x.op, metal.Join) and choices.below(3):  # of one of its parts
        number = choices.below(len(x.op.parts))
        *before, size = (count_of(part.type) for part in x.op.parts[: number + 1])
        start = sum(before)
    count = choices.of((1, 1, *draft.counts))
    style = choices.below(6)
    if style < 2:
        indices = [choices.below(size) for _ in range(count)]
    else:
        first, step = choices.below(size), choices.of((1, -1, 0) if style == 2 else (2, size // 2))
        indices = [(first + i * step) % size for i in range(count)]
    if style == 4:  # and back to where it began
        indices = [*indices[:-1], indices[0]]
    if style == 5 and size < MOST_REGISTERS:  # all of them, again and again
        indices = [*range(size)] * min(choices.of((2, 4)), MOST_REGISTERS // size)
    indices = [start + i for i in indices]
    draft.add(metal.take(indices, x))


@make_metal(metal.Join)
def join(cls: type[metal.Join], draft: MetalDraft, choices: Choices) -> None:
    first = draft.some(ALL, choices, lambda t: count_of(t) < MOST_REGISTERS)
    parts, room = [first], MOST_REGISTERS - count_of(first.type)
    for _ in range(1 + choices.below(3)):
        fits = [t for t in draft.types(element_type(first.type).element) if count_of(t) <= room]
        if fits:
            parts.append(draft.like(choices.of(fits), choices))
            room -= count_of(parts[-1].type)
    draft.add(metal.join(parts))


@make_metal(metal.Insert)
def insert(cls: type[metal.Insert], draft: MetalDraft, choices: Choices) -> None:
    x, type_ = array(draft, choices)
    number = draft.some((i32, *INTEGERS), choices, lambda t: not t.shape)
    index = draft.clamped(number, 0, count_of(type_) - 1)
    element = draft.like(type_.element, choices)
    draft.add(metal.Insert(x, index, element, type_))


@make_metal(metal.Slice)
def part(cls: type[metal.Slice], draft: MetalDraft, choices: Choices) -> None:
    x, type_ = array(draft, choices)
    gathered = [v for v in draft.visible if isinstance(v.op, metal.Join | metal.Take)]
    for value in gathered[-1:]:
        if isinstance(value.type, Registers) and choices.flag():  # whatever else is done with it
            x, type_ = value, value.type
    width = choices.of([n for n in (1, 2, 4, 8, 16, 3, 7) if count_of(type_) % n == 0])
    number = draft.some((i32, *INTEGERS), choices, lambda t: not t.shape)
    index = draft.clamped(number, 0, count_of(type_) // width - 1)
    draft.add(metal.Slice(x, index, registers(width, type_.element)))


# The lanes of a simdgroup together.


@make_metal(metal.ShuffleXor)
def shuffle_xor(cls: type[metal.ShuffleXor], draft: MetalDraft, choices: Choices) -> None:
    mask = choices.of((1, 16, 2, 8, 4, 31, 5))
    draft.add(metal.ShuffleXor(mask, draft.some(draft.exchanged_dtypes, choices)))


@make_metal(metal.Shuffle)
def shuffle(cls: type[metal.Shuffle], draft: MetalDraft, choices: Choices) -> None:
    x = draft.some(draft.exchanged_dtypes, choices)
    lane = draft.some((i32, *INTEGERS), choices, lambda t: not t.shape)
    if choices.flag(3):
        turned = draft.put(math.Add(draft.lane, draft.constant(1 + choices.below(31), i32)))
        lane = draft.wrapped(turned, SIMDGROUP_WIDTH)
    else:
        lane = draft.wrapped(lane, SIMDGROUP_WIDTH)
    draft.add(metal.Shuffle(x, lane))


@make_metal(metal.Broadcast)
def broadcast(cls: type[metal.Broadcast], draft: MetalDraft, choices: Choices) -> None:
    lane = choices.below(SIMDGROUP_WIDTH)
    draft.add(metal.Broadcast(lane, draft.some(draft.exchanged_dtypes, choices)))


@make_metal(metal.Mma)
def mma(cls: type[metal.Mma], draft: MetalDraft, choices: Choices) -> None:
    """Of integers, which may be added up in any order."""

    def even(type_: ElementType) -> bool:
        return count_of(type_) in (2, 4, 8)

    a = draft.find(lambda t: t.element.is_float and even(t), choices)
    if a is None:
        dtype = choices.of([d for d in draft.dtypes if d.is_float] or [f32])
        a = draft.leaf(Registers(choices.of((2, 4, 8)), dtype))
    element, room = element_type(a.type).element, 2 * MOST_REGISTERS // count_of(a.type)
    depth = choices.of([n for n in (1, 2, 4) if 2 * n <= count_of(a.type)])
    fits = [n for n in (2, 4, 8) if 2 * depth <= n <= room * depth**2]
    b = draft.like(Registers(choices.of(fits), element), choices, besides=a)
    rows, columns = (count_of(x.type) // (2 * depth) for x in (a, b))
    acc = draft.like(Registers(2 * rows * columns, f32), choices)
    a, b = (draft.exact(x, SUMMED, SUMMED) for x in (a, b))
    acc = draft.exact(acc, SUMMED, SUMS_AT_MOST - 8 * depth * SUMMED**2)
    # The order decides which zero a sum of nothing but -0.0 is.
    acc = draft.put(math.Add(acc, draft.constant(0, element_type(acc.type))))
    # Every drawn number of columns is a power of two.
    turns, transposed = choices.flag(3), choices.flag(3)
    draft.add(
        metal.Mma(
            a,
            b,
            acc,
            depth=depth,
            transposed=transposed,
            serpentine=turns,
            tf32=element is f32 and turns,  # whole numbers as small as these are of tf32
        )
    )


# Reports.


@make_metal(metal.Assert)
def check(cls: type[metal.Assert], draft: MetalDraft, choices: Choices) -> None:
    """Something that holds: a condition or its negation."""
    condition = draft.some((bool_,), choices, lambda t: not t.shape)
    either = draft.put(math.Or(condition, draft.put(math.Not(condition))))
    draft.builder.insert(metal.Assert("one or the other", either))


@make_metal(metal.Print)
def report(cls: type[metal.Print], draft: MetalDraft, choices: Choices) -> None:
    """What the first thread has, or the first simdgroup, each lane its own: where all threads are,
    for all of them give a line together."""
    if draft.flow is not THREADGROUP or draft.quiet:
        return
    x = draft.some(ALL, choices, lambda t: count_of(t) in (1, 2, 4))
    count, element = count_of(x.type), element_type(x.type).element
    numbers, at = registers_of(draft, x), element_type(x.type).with_element(i32)
    decides, type_ = (
        draft.thread,
        element if not element_type(x.type).shape else Tile((count,), element),
    )
    if choices.flag():
        decides, type_ = draft.simdgroup, Tile((32 * count,), element)
        first = draft.times(draft.lane, count)
        first = draft.put(metal.Splat(first, at)) if at.shape else first
        numbers = draft.put(math.Add(numbers, first))
    is_first = draft.put(math.Compare(Predicate.EQ, decides, draft.constant(0, i32)))
    nowhere = draft.constant(-1, at)
    places = draft.put(math.Select(is_first, numbers, nowhere))
    draft.builder.insert(metal.Print("here", (type_,), values=[x], places=[places]))


def registers_of(draft: MetalDraft, x: Value) -> Value:
    """The numbers of the elements that a thread has of a value."""
    type_ = element_type(x.type).with_element(i32)
    if not type_.shape:
        return draft.constant(0, i32)
    return draft.put(metal.Literal(tuple(range(count_of(type_))), type_))
