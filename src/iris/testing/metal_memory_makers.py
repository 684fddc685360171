"""How each op of Metal IR that touches memory is made in a random program: where no two threads
meet, unless they may, with a barrier before it where one is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from iris.ir import math, metal
from iris.ir.control import For, If, While, Yield
from iris.ir.core import Op, Value
from iris.ir.kinds import AtomicKind
from iris.ir.math import Predicate, element_type
from iris.ir.metal import FRAGMENT_SIZE, SIMDGROUP_WIDTH, Scope, count_of, registers
from iris.ir.types import (
    DType,
    ElementType,
    Ptr,
    Threadgroup,
    bool_,
    f32,
    i8,
    i16,
    i32,
    i64,
    u8,
    u32,
)
from iris.ir.uniformity import THREADGROUP, VARYING
from iris.testing.choices import Choices
from iris.testing.draft import MOST_ARRAYS, special_number
from iris.testing.elementwise import ALL, SUMMED, SUMS_AT_MOST
from iris.testing.hazards import Pattern, Touch, Use, permits
from iris.testing.metals import (
    COUNTERS,
    OWN,
    PARTS,
    Memory,
    MetalDraft,
    Place,
    make_metal,
    widths,
)
from iris.tools.replay import Array

NUMERIC = (AtomicKind.ADD, AtomicKind.MAX, AtomicKind.MIN)
ATOMIC = tuple([d for d in ALL if d.bits == 32])
EITHER_WAY = {
    AtomicKind.ADD: math.Add,
    AtomicKind.MAX: math.MaxNum,
    AtomicKind.MIN: math.MinNum,
    AtomicKind.AND: math.And,
    AtomicKind.OR: math.Or,
    AtomicKind.XOR: math.Xor,
}


# Places.


def masked(draft: MetalDraft, place: Place, choices: Choices) -> Place:
    """The place, seldom for some threads only; and its offset maybe of 64 bits."""
    style = choices.below(8)
    if style >= 6:
        offset = draft.put(math.Cast(place.offset, u32)) if style == 7 else place.offset
        place = place._replace(offset=draft.put(math.Cast(offset, i64)))
    if choices.flag(4):
        mask = draft.like(bool_, choices)
        if place.mask is not None:
            mask = draft.put(math.And(mask, place.mask))
        place = place._replace(mask=mask)
    return place


def input_place(draft: MetalDraft, choices: Choices) -> Place:
    """Anywhere in an array that is only read, or past its end."""
    dtype = choices.of(draft.dtypes)
    bytes_ = [d for d in (u8, u8, i8) if d in draft.all_dtypes]
    if bytes_ and choices.flag(8):
        return Place(draft.table(dtype), dtype, byte(draft, choices.of(bytes_), choices))
    pointer, recipe = draft.input(dtype, choices)
    width = choices.of(widths(dtype))
    count = prod(recipe.shape) // width
    mask = None
    style = choices.below(4)
    if style == 0:
        at = draft.wrapped(draft.number, count)
    elif style == 1:
        at = draft.small(choices, count)
    elif style == 2:
        at = draft.wrapped(draft.like_most(i32, THREADGROUP, choices), count)
    else:
        at = draft.small(choices, 2 * count)
        end = draft.constant(choices.of((count, count - 1, count // 2)), i32)
        mask = draft.put(math.Compare(Predicate.LT, at, end))
    return Place(pointer, registers(width, dtype), draft.times(at, width), mask)


def byte(draft: MetalDraft, dtype: DType, choices: Choices) -> Value:
    """The number of an element of a table, computed in 8 bits."""
    x = draft.like(dtype, choices)
    if choices.below(4):
        cls = choices.of((math.Add, math.Sub, math.Mul, math.Xor))
        number = draft.constant(choices.of((100, 37, dtype.high)), dtype)
        x = draft.put(cls(x, number if choices.flag() else draft.other(x, choices)))
    at = draft.put(math.Cast(x, i32))
    return at if dtype is u8 else draft.put(math.Add(at, draft.constant(128, i32)))


def own_place(draft: MetalDraft, dtype: DType, width: int, choices: Choices) -> Place:
    """Some of a thread's own elements."""
    base = draft.own(dtype, choices)
    style = choices.below(3)
    if style == 2:
        part = draft.small(choices, OWN // width)
    else:
        part = draft.constant(choices.below(OWN // width), i32)
    start = draft.times(draft.number, OWN)
    offset = draft.put(math.Add(start, draft.times(part, width)))
    return Place(base, registers(width, dtype), offset)


def shared_memory(draft: MetalDraft, dtypes: Sequence[DType], choices: Choices) -> Memory | None:
    """Memory of some dtypes that threads share; an array, seldom, that was not there before."""
    arrays = [m for m in draft.shared if m.start is not None]
    mine = [d for d in draft.dtypes if d in dtypes]
    if mine and len(arrays) < 2 and choices.flag(6):
        return draft.exchanged(choices.of(mine))
    known = [m for m in draft.shared if m.dtype in dtypes]
    return choices.of(known[::-1]) if known else None


def shared_place(
    draft: MetalDraft,
    memory: Memory,
    use: Use,
    width: int,
    choices: Choices,
    part: Value | None = None,
) -> Place | None:
    """Elements of shared memory, if there is a way for threads to touch them here: those of a
    pattern, or any, to read."""
    style = choices.below(8) if part is None and draft.flow is THREADGROUP else 0
    if style == 7:
        return turned_place(draft, memory, use, width, choices)
    anywhere = use is Use.READ and part is None and choices.flag()
    pattern = None if anywhere else some_pattern(draft, width, choices)
    if not draft.access(memory, Touch(use, pattern), choices):
        return None
    if pattern is None:
        at = draft.small(choices, memory.size // width)
        offset = draft.offset(memory, at, width)
        return Place(memory.base, registers(width, memory.dtype), offset, None, memory)
    return draft.place(memory, pattern, some_part(draft, width, choices) if part is None else part)


def some_part(draft: MetalDraft, width: int, choices: Choices) -> Value:
    """A part of shared memory: one, any, or some parts on from where others are looked for, too."""
    count = PARTS // width
    style = choices.below(8)
    if style < 2:
        return draft.constant(choices.below(count), i32)
    if style == 2:
        return draft.small(choices, count)
    number, end = draft.steady(VARYING, choices)
    if style == 3:
        number, end = draft.simdgroup, None
    elif style == 4:
        number, end = either_part(draft, choices), 2
    if end is None or end > count:
        end = max(count // 2, 1)
        key = "part", number, end
        if key not in draft.memo:
            draft.memo[key] = draft.wrapped(number, end)
        number = draft.memo[key]
    if style == 5:  # the other way round
        return draft.put(math.Sub(draft.constant(count - 1, i32), number))
    shift = choices.below(count - end + 1)
    return draft.put(math.Add(number, draft.constant(shift, i32))) if shift else number


def either_part(draft: MetalDraft, choices: Choices) -> Value:
    """0 or 1, as a branch decides."""
    if "part" not in draft.memo:
        branch = If(draft.guard(choices), [i32])
        draft.builder.insert(branch)
        for region, number in zip(branch.regions, (0, 1), strict=True):
            with draft.inside(region):
                draft.builder.insert(Yield([draft.constant(number, i32)]))
        draft.levels[branch.results[0]] = draft.level_of(branch.condition)
        draft.memo["part"] = branch.results[0]
    return draft.memo["part"]


def turned_place(
    draft: MetalDraft, memory: Memory, use: Use, width: int, choices: Choices
) -> Place | None:
    """Elements of other threads in each turn of a loop, where all threads are."""
    number, _ = draft.steady(THREADGROUP, choices)
    if draft.flow is not THREADGROUP or not draft.access(memory, Touch(use, None), choices):
        return None
    stride = draft.constant(choices.of((1, 32, 5)), i32)
    at = draft.put(math.Add(draft.thread, draft.put(math.Mul(number, stride))))
    at = draft.wrapped(at, draft.threads)
    return draft.placed(memory, at, some_part(draft, width, choices), width)


def place_of_one(
    draft: MetalDraft, memory: Memory, use: Use, width: int, choices: Choices
) -> Place | None:
    """Elements that only one thread touches, which may be another one in each turn of a loop."""
    if draft.flow is not THREADGROUP or not draft.access(memory, Touch(use, None), choices):
        return None
    number = draft.constant(choices.of((0, 1, 32)) % draft.threads, i32)
    if choices.flag():
        number, end = draft.steady(THREADGROUP, choices)
        number = draft.wrapped(number, draft.threads) if end is None else number
    mask = draft.put(math.Compare(Predicate.EQ, draft.thread, number))
    at = some_part(draft, width, choices)
    offset = draft.offset(memory, at, width)
    type_ = registers(width, memory.dtype)
    return Place(memory.base, type_, offset, mask, memory, apart=True)


def some_pattern(draft: MetalDraft, width: int, choices: Choices) -> Pattern:
    flip = choices.of((0, 1, 0, 31, 16, draft.threads - 1, draft.threads // 2))
    shift = choices.of((0, 0, 0, 1, 32, draft.threads // 2))
    return Pattern(flip, shift % draft.threads, width)


def revisit(draft: MetalDraft, use: Use, choices: Choices) -> Place | None:
    """A place where threads have been before, if they may be there again: what is read again after
    a write, or only seems to be, is what passes go wrong about."""
    if draft.quiet or not draft.places or not choices.flag():
        return None
    place = draft.places[-1 - choices.below(len(draft.places))]
    if place.memory is None:
        return place
    by_turns = place.apart and draft.flow is THREADGROUP
    allowed = use is Use.READ or place.pattern is not None or by_turns
    touch = Touch(use, place.pattern)
    return place if allowed and draft.access(place.memory, touch, choices) else None


def share_before(draft: MetalDraft, choices: Choices) -> None:
    """Memory for a loop or branch to use, or two that a loop may carry, as often as not."""
    style = choices.below(10)
    if draft.shared or not may_allocate(draft) or (style < 5 and not draft.short):
        share_after(draft, choices)
        return
    dtype = atomic_dtype(draft, choices) if choices.flag(3) else choices.of(draft.dtypes)
    if style % 5 == 4:
        two_views(draft, dtype, dtype, choices)
        return
    for _ in range((1, 2, 1, 0)[style % 5]):
        allocated(draft, dtype, choices)
    if style % 5 > 1:
        draft.exchanged(dtype)


def share_after(draft: MetalDraft, choices: Choices) -> None:
    """In a short program, what is done with memory right before or after a loop or branch."""
    if draft.short and draft.flow is THREADGROUP and choices.flag():
        exchange(draft, choices)


def exchange(draft: MetalDraft, choices: Choices) -> None:
    """A few accesses to memory, all that some loops and branches do: at places that move on with
    the turns, so that threads read and write where others do in the next, or that stay."""
    memory = shared_memory(draft, draft.dtypes, choices)
    if memory is None or draft.quiet:
        return
    width = choices.of([w for w in widths(memory.dtype) if w < PARTS])
    ways = (shared_place, place_of_one, turned_place)
    way, use = choices.of(ways), choices.of((Use.WRITE, Use.WRITE, Use.READ))
    place = way(draft, memory, use, width, choices)
    for _ in range(1 + choices.below(3)):
        if place is not None:
            exchanged_at(draft, place, use, choices)
        use = choices.of((Use.READ, Use.WRITE))
        style = choices.below(8)
        parts = load_parts if use is Use.READ else store_parts
        if style == 7 and parts(draft, memory, choices):
            place = None
            continue
        if place is None or not place.apart or style < 4:
            others = [m for m in draft.shared if m.dtype is memory.dtype]
            memory = choices.of((memory, choices.of(others)))
            place = choices.of((way, *ways))(draft, memory, use, width, choices)
        elif use is Use.READ and style == 6 and place.type is memory.dtype:
            if not draft.access(memory, Touch(use, None), choices):
                return
            place = paired(draft, place)
        elif place.mask is not None and use is Use.READ and style < 6:
            if not draft.access(memory, Touch(use, None), choices):
                return
            place = place._replace(mask=None, apart=False)
        elif not draft.access(memory, Touch(use, place.pattern), choices):
            return


def paired(draft: MetalDraft, place: Place) -> Place:
    """Two neighbours where each thread has one: every second thread has both."""
    assert isinstance(place.type, DType)
    zero, one = draft.constant(0, i32), draft.constant(1, i32)
    odd = draft.put(math.And(place.offset, one))
    mask = draft.put(math.Compare(Predicate.EQ, odd, zero))
    if place.mask is not None:
        mask = draft.put(math.And(mask, place.mask))
    return place._replace(type=registers(2, place.type), mask=mask, apart=False)


def exchanged_at(draft: MetalDraft, place: Place, use: Use, choices: Choices) -> None:
    """An access at a place, maybe in a branch that some turns take, or those threads."""
    style, guard = choices.below(6), None
    if place.mask is not None and style >= 4:
        guard, place = place.mask, place._replace(mask=None)
    elif place.mask is None and style == 5:
        number, _ = draft.steady(THREADGROUP, choices)
        one = draft.constant(1, i32)
        guard = draft.put(math.Compare(choices.of(list(Predicate)), number, one))
    atomic = use is Use.WRITE and place.type in ATOMIC and place.mask is None and choices.flag()
    updates = use is Use.WRITE and not atomic and guard is not None and choices.flag()
    returns = use is Use.READ or atomic or updates
    value = telling(draft, place.type, choices)
    if guard is None:
        found = accessed(draft, place, use, value, atomic)
        draft.visible += found
        return
    branch = If(guard, [place.type] if returns else [])
    draft.builder.insert(branch)
    with draft.under(branch.then, draft.level_of(guard)):
        found = accessed(draft, place, Use.READ, value, False) if updates else []
        found += accessed(draft, place, use, value, atomic)
        draft.builder.insert(Yield(found))
    with draft.under(branch.otherwise, draft.level_of(guard)):
        draft.builder.insert(Yield([value] if returns else []))
    draft.carry_out(branch, VARYING)


def accessed(draft: MetalDraft, place: Place, use: Use, value: Value, atomic: bool) -> list[Value]:
    """What an access gives, of a value that it stores, or that it gives where it is masked."""
    if use is Use.READ:
        other = None if place.mask is None else value
        load = metal.Load(place.base, place.offset, place.mask, other, result=place.type)
        return [draft.put(load)]
    if atomic:
        return [draft.put(metal.Atomic(AtomicKind.EXCHANGE, place.base, place.offset, value))]
    draft.builder.insert(metal.Store(place.base, place.offset, value, place.mask))
    return []


def telling(draft: MetalDraft, type_: ElementType, choices: Choices) -> Value:
    """A value that tells which thread made it and when, as often as not."""
    if choices.flag():
        return draft.like(type_, choices)
    number, _ = draft.steady(VARYING, choices)
    value = draft.put(math.Add(draft.times(number, 5), draft.thread))
    dtype = type_.element
    if dtype is not i32:
        value = draft.put(math.Cast(value, dtype))
    return draft.put(metal.Splat(value, type_)) if type_.shape else value


# Loads and stores.


@make_metal(metal.Load)
def load(cls: type[metal.Load], draft: MetalDraft, choices: Choices) -> None:
    style = choices.below(6)
    place = revisit(draft, Use.READ, choices)
    if place is None and style >= 3:
        memory = None if draft.quiet else shared_memory(draft, draft.dtypes, choices)
        if memory is not None:
            if style == 5 and load_parts(draft, memory, choices):
                return
            width = choices.of([w for w in widths(memory.dtype) if w <= PARTS])
            way = place_of_one if choices.flag(6) else shared_place
            place = way(draft, memory, Use.READ, width, choices)
    if place is None and style == 2 and not draft.quiet:
        dtype = choices.of(draft.dtypes)
        width = choices.of([w for w in widths(dtype) if w <= OWN])
        place = own_place(draft, dtype, width, choices)
    if place is None:
        place = masked(draft, input_place(draft, choices), choices)
    else:
        place = masked(draft, place, choices)
    draft.places.append(place)
    other = None if place.mask is None else draft.like(place.type, choices)
    if place.mask is None and choices.flag(4):
        moved(draft, choices)
    volatile = choices.flag(8) and not place.type.shape
    op = metal.Load(
        place.base, place.offset, place.mask, other, volatile=volatile, result=place.type
    )
    draft.add(op)


@make_metal(metal.Copy)
def copies(cls: type[metal.Copy], draft: MetalDraft, choices: Choices) -> None:
    """Copies to the parts of shared memory that a pattern gives each thread, one after the other,
    waited for as late as may be."""
    dtypes = [d for d in draft.all_dtypes if d.bits <= 32]
    known = [m for m in draft.shared if m.start is None and m.dtype in dtypes]
    if not known and dtypes and may_allocate(draft):
        known = [allocated(draft, choices.of(dtypes), choices)]
    if not known or draft.quiet or draft.flow is not THREADGROUP:
        return
    memory = choices.of(known[::-1])
    fitting = [w for w in widths(memory.dtype) if w * memory.dtype.bytes >= 4 and w <= PARTS]
    if not fitting:
        return
    width = choices.of(fitting)
    pattern = some_pattern(draft, width, choices)
    source, recipe = draft.input(memory.dtype)
    count = prod(recipe.shape) // width
    if not source.type_as(Ptr).aligned or not draft.access(
        memory, Touch(Use.WRITE, pattern), choices
    ):
        return
    for part in range(min(1 + choices.below(3), PARTS // width)):
        to = draft.place(memory, pattern, draft.constant(part, i32))
        at = draft.times(draft.small(choices, count), width)
        mask = draft.like(bool_, choices) if choices.flag(3) else None
        draft.builder.insert(metal.Copy(width, memory.base, to.offset, source, at, mask))
        draft.builder.insert(metal.WaitCopies(1 + choices.below(2)))
    draft.builder.insert(metal.WaitCopies(0))


@make_metal(metal.WaitCopies)
def wait_for_copies(cls: type[metal.WaitCopies], draft: MetalDraft, choices: Choices) -> None:
    draft.builder.insert(metal.WaitCopies(choices.below(3)))


@make_metal(metal.LoadRows)
def load_rows(cls: type[metal.LoadRows], draft: MetalDraft, choices: Choices) -> None:
    """Rows from anywhere in memory of the threadgroup."""
    dtypes = [d for d in draft.all_dtypes if d.is_float and d.bits == 16]
    known = [m for m in draft.shared if m.start is None and m.dtype in dtypes]
    if not known and dtypes and may_allocate(draft):
        known = [allocated(draft, choices.of(dtypes), choices)]
    if not known or draft.quiet:
        return
    memory = choices.of(known[::-1])
    rows = memory.size // FRAGMENT_SIZE
    at = draft.wrapped(draft.thread, rows) if choices.flag() else draft.small(choices, rows)
    if not draft.access(memory, Touch(Use.READ, None), choices):
        return
    offset = draft.offset(memory, at, FRAGMENT_SIZE)
    if choices.flag(4):
        offset = draft.put(math.Cast(offset, i64))
    type_ = registers(choices.of((8, 4, 2)), memory.dtype)
    draft.add(metal.LoadRows(memory.base, offset, transposed=choices.flag(), result=type_))


def halves(
    draft: MetalDraft, pointer: Value, type_: ElementType, value: Value, choices: Choices
) -> Value:
    """What is loaded whole and stored by halves, or loaded by halves."""
    half = registers(count_of(type_) // 2, type_.element)
    is_load = choices.flag()
    op = metal.Foreach(2, [type_] if is_load else [])
    draft.builder.insert(op)
    with draft.under(op.body, THREADGROUP):
        (number,) = op.body.arguments
        if is_load:
            at = draft.times(number, count_of(half))
            draft.builder.insert(Yield([draft.put(metal.Load(pointer, at, result=half))]))
        else:
            draft.store(draft.put(metal.Slice(value, number, half)))
            draft.builder.insert(Yield([]))
    return op.results[0] if is_load else value


# Which ways of a branch load something, and which may give a number.
FIRST = ((True, False), (False, True))


def moved(draft: MetalDraft, choices: Choices) -> None:
    """Elements that one access moves, from one place or another, or a number: as a branch or a loop
    says, and nothing else is done with them but a store."""
    narrow = [d for d in draft.all_dtypes if d.bits <= 16 and d is not bool_]
    narrow += [d for d in narrow if d.bits == 8]
    if not narrow or not draft.spare_arrays or draft.quiet:
        return
    dtype = choices.of(narrow)
    pointer, recipe = draft.input(dtype)
    count = widths(dtype)[-1]
    type_ = registers(count, dtype)

    def loaded(number: Value) -> Value:
        at = draft.times(draft.wrapped(number, prod(recipe.shape) // count), count)
        return draft.put(metal.Load(pointer, at, result=type_))

    def other() -> Value:
        number = special_number(dtype, choices)
        return draft.constant(number, type_) if choices.below(3) else loaded(draft.number)

    style = choices.of((1, 2, 0, 4, 3, 1, 4))
    if style == 0:
        value = loaded(draft.number) if choices.flag() else other()
    elif style == 4:  # or by halves
        value = halves(draft, pointer, type_, loaded(draft.number), choices)
    elif style == 1:
        half = draft.constant(choices.of((16, 1)), i32)
        some = draft.put(math.Compare(choices.of(list(Predicate)), draft.lane, half))
        op: If | For = If(draft.guard(choices) if choices.flag(4) else some, [type_])
        draft.builder.insert(op)
        for region, is_loaded in zip(op.regions, choices.of(FIRST), strict=True):
            with draft.under(region, VARYING):
                value = loaded(draft.number) if is_loaded else other()
                draft.builder.insert(Yield([value]))
        value = op.results[0]
    else:
        zero, one = (draft.constant(n, i32) for n in (0, 1))
        end = draft.wrapped(draft.number, 2) if choices.flag() else draft.constant(2, i32)
        op = draft.builder.insert(For(zero, end, one, [other()]))
        with draft.under(op.body, VARYING):
            if style == 2:
                draft.store(op.body.arguments[1])
            value = loaded(draft.put(math.Add(draft.number, op.body.arguments[0])))
            draft.builder.insert(Yield([value]))
        value = op.results[0]
    draft.store(value)


def load_parts(draft: MetalDraft, memory: Memory, choices: Choices) -> bool:
    """What each thread finds in each part of shared memory, if it may look."""
    width = choices.of([w for w in widths(memory.dtype) if w < PARTS])
    number = PARTS // width
    pattern = some_pattern(draft, width, choices)
    if not draft.access(memory, Touch(Use.READ, pattern), choices):
        return False
    op = metal.Foreach(number, [registers(PARTS, memory.dtype)])
    draft.builder.insert(op)
    with draft.under(op.body, THREADGROUP):
        place = draft.place(memory, pattern, op.body.arguments[0])
        part = draft.put(metal.Load(place.base, place.offset, result=place.type))
        draft.builder.insert(Yield([part]))
    draft.carry_out(op, VARYING)
    return True


@make_metal(metal.Store)
def store(cls: type[metal.Store], draft: MetalDraft, choices: Choices) -> None:
    if draft.quiet:
        return
    style = choices.below(6)
    if style == 5:
        overwrite(draft, choices)
        return
    place = revisit(draft, Use.WRITE, choices)
    if place is not None and is_written(draft, place):
        write(draft, place, draft.like(place.type, choices), choices)
        return
    memory = shared_memory(draft, draft.dtypes, choices) if style >= 1 else None
    if memory is not None:
        if style == 4 and store_parts(draft, memory, choices):
            return
        width = choices.of([w for w in widths(memory.dtype) if w <= PARTS])
        value = draft.like(registers(width, memory.dtype), choices)
        way = place_of_one if choices.flag(6) else shared_place
        place = way(draft, memory, Use.WRITE, width, choices)
        if place is not None:
            write(draft, place, value, choices)
            return
    if style == 0 and choices.flag():
        rearrange(draft, choices)
        return
    value = draft.some(ALL, choices, lambda t: fits_own(t.element, t.shape))
    type_ = element_type(value.type)
    if choices.flag(4):  # a number, into as many as can be
        type_ = registers([w for w in widths(type_.element) if w <= OWN][-1], type_.element)
        value = draft.constant(special_number(type_.element, choices), type_)
    place = own_place(draft, type_.element, count_of(type_), choices)
    write(draft, place._replace(type=type_), value, choices)


def rearrange(draft: MetalDraft, choices: Choices) -> None:
    """Puts elements of a thread's own in another order where they are, maybe beside what they
    were: those of few bytes, of which one access moves more than a vector has."""
    dtype = choices.of([d for d in draft.dtypes if d.bits <= 16] or list(draft.dtypes))
    width = [w for w in widths(dtype) if w <= OWN][-1]
    place = own_place(draft, dtype, width, choices)
    x = draft.put(metal.Load(place.base, place.offset, result=place.type))
    numbers, half = [*range(width)], width // 2
    order = choices.of((numbers[::-1], numbers[half:] + numbers[:half], [*numbers[1:], 0]))
    value = draft.put(metal.take(order, x))
    if choices.flag(3):
        value = draft.put((math.Xor if dtype is bool_ else math.Maximum)(value, x))
    write(draft, place, value, choices)


def overwrite(draft: MetalDraft, choices: Choices) -> None:
    """Writes or reads an element of a thread's own twice; maybe with an access between, by another
    name or in another array, in a branch or not."""
    dtype = choices.of((atomic_dtype(draft, choices), *draft.dtypes))
    place = own_place(draft, dtype, 1, choices)
    elsewhere = place if choices.flag(3) else place._replace(base=draft.own(dtype, choices))
    touch(draft, place, choices.of((metal.Store, metal.Store, metal.Load)), choices)
    between = choices.of((None, metal.Store, metal.Atomic, metal.Load, metal.Store))
    if between is not None and choices.flag():
        guard = draft.guard(choices)
        branch = draft.builder.insert(If(guard))
        with draft.under(branch.then, draft.level_of(guard)):
            if not draft.quiet:
                touch(draft, elsewhere, between, choices)
            draft.builder.insert(Yield([]))
        with draft.inside(branch.otherwise):
            draft.builder.insert(Yield([]))
    elif between is not None:
        touch(draft, elsewhere, between, choices)
    touch(draft, place, choices.of((metal.Load, metal.Store)), choices)


def touch(draft: MetalDraft, place: Place, cls: type[Op], choices: Choices) -> None:
    """Loads, stores or updates an element of a thread's own.  What is loaded goes elsewhere."""
    dtype = element_type(place.type).element
    if cls is metal.Load:
        seen = draft.put(metal.Load(place.base, place.offset, result=dtype))
        if draft.spare_arrays:
            draft.store(seen)
        return
    value = draft.like(dtype, choices)
    if cls is metal.Atomic and dtype in ATOMIC:
        draft.put(metal.Atomic(AtomicKind.EXCHANGE, place.base, place.offset, value))
    else:
        draft.builder.insert(metal.Store(place.base, place.offset, value))


def fits_own(dtype: DType, shape: tuple[int, ...]) -> bool:
    count = prod(shape)
    return count in widths(dtype) and count <= OWN


def may_update(draft: MetalDraft, place: Place, dtype: DType) -> bool:
    """Whether an atomic op may update a place, as one of all threads."""
    return place.type is dtype and place.mask is None and is_written(draft, place)


def is_written(draft: MetalDraft, place: Place) -> bool:
    """Whether threads may write at a place: it is shared, or of one thread."""
    return place.memory is not None or place.base in draft.owned


def write(draft: MetalDraft, place: Place, value: Value, choices: Choices) -> None:
    place = masked(draft, place, choices)
    draft.places.append(place)
    draft.builder.insert(metal.Store(place.base, place.offset, value, place.mask))


def store_parts(draft: MetalDraft, memory: Memory, choices: Choices) -> bool:
    """Writes to each part of shared memory, if threads may."""
    width = choices.of([w for w in widths(memory.dtype) if w < PARTS])
    number = PARTS // width
    pattern = some_pattern(draft, width, choices)
    value = draft.like(registers(PARTS, memory.dtype), choices)
    if not draft.access(memory, Touch(Use.WRITE, pattern), choices):
        return False
    op = draft.builder.insert(metal.Foreach(number, []))
    with draft.under(op.body, THREADGROUP):
        index = op.body.arguments[0]
        place = draft.place(memory, pattern, index)
        part = draft.put(metal.Slice(value, index, place.type))
        draft.builder.insert(metal.Store(place.base, place.offset, part))
        draft.builder.insert(Yield([]))
    return True


# The memory of a threadgroup.


@make_metal(metal.Alloc)
def allocate(cls: type[metal.Alloc], draft: MetalDraft, choices: Choices) -> None:
    if may_allocate(draft):
        dtype = atomic_dtype(draft, choices) if choices.flag(3) else choices.of(draft.dtypes)
        allocated(draft, dtype, choices)


def may_allocate(draft: MetalDraft) -> bool:
    """Whether all threads are here to fill new memory, of which there is enough for two."""
    return draft.barrier is Scope.DEVICE and draft.room >= 2 * 8 * PARTS * draft.threads


def allocated(draft: MetalDraft, dtype: DType, choices: Choices) -> Memory:
    base = allocation(draft, Threadgroup(PARTS * draft.threads + draft.spare, dtype))
    return draft.filled_memory(base, base, 0, choices)


def allocation(draft: MetalDraft, type_: Threadgroup) -> Value:
    draft.room -= type_.bytes
    return draft.builder(metal.Alloc(type_))


@make_metal(metal.View)
def view(cls: type[metal.View], draft: MetalDraft, choices: Choices) -> None:
    """Two views of an allocation of bytes, apart; or, later, the one where the other was."""
    if not may_allocate(draft):
        return
    one, other = (choices.of(draft.dtypes) for _ in range(2))
    if choices.flag():
        two_views(draft, one, one if choices.flag() else other, choices)
        return
    sizes = [PARTS * draft.threads * d.bytes for d in (one, other)]
    root = allocation(draft, Threadgroup(max(sizes), u8))
    for dtype in (one, other):
        draft.shared = [m for m in draft.shared if root not in m.roots]
        viewed(draft, root, 0, dtype, choices)


def two_views(draft: MetalDraft, one: DType, other: DType, choices: Choices) -> None:
    """Two disjoint views of one allocation of bytes; the second may be a view of a view."""
    sizes = [PARTS * draft.threads * d.bytes for d in (one, other)]
    element = choices.of((u8, u8, i16, i32))
    root = allocation(draft, Threadgroup(sum(sizes) // element.bytes, element))
    viewed(draft, root, 0, one, choices)
    viewed(draft, root, sizes[0], other, choices)


def viewed(draft: MetalDraft, root: Value, start: int, dtype: DType, choices: Choices) -> None:
    """Memory that is a view of an allocation of bytes, or of a view that begins before it."""
    type_, outer, skipped = Threadgroup(PARTS * draft.threads, dtype), root, 0
    if start and choices.flag():
        skipped = start // 2
        outer = draft.builder(metal.View(skipped, root, Threadgroup(type_.bytes + start // 2, u8)))
    base = draft.builder(metal.View(start - skipped, outer, type_))
    draft.filled_memory(base, root, start, choices)


@make_metal(metal.Barrier)
def barrier(cls: type[metal.Barrier], draft: MetalDraft, choices: Choices) -> None:
    """One that nothing needs."""
    if draft.barrier is not None:
        draft.meet(choices.of([s for s in Scope if permits(draft.barrier, s)]))


# Atomic ops.


@make_metal(metal.AtomicLoad)
def atomic_load(cls: type[metal.AtomicLoad], draft: MetalDraft, choices: Choices) -> None:
    if draft.quiet:
        return
    memory = shared_memory(draft, ATOMIC, choices)
    place = None if memory is None else shared_place(draft, memory, Use.READ, 1, choices)
    if place is None:
        place = own_place(draft, atomic_dtype(draft, choices), 1, choices)
    draft.add(metal.AtomicLoad(place.base, place.offset))


def atomic_dtype(draft: MetalDraft, choices: Choices) -> DType:
    return choices.of([d for d in draft.dtypes if d in ATOMIC] or [i32])


@make_metal(metal.Atomic)
def atomic(cls: type[metal.Atomic], draft: MetalDraft, choices: Choices) -> None:
    """Of a thread's own elements; or of any, in one way, so that their order does not matter."""
    if draft.quiet:
        return
    style = choices.below(5)
    memory = shared_memory(draft, ATOMIC, choices) if style >= 2 else None
    if style == 4 and memory is None and may_allocate(draft):
        memory = allocated(draft, atomic_dtype(draft, choices), choices)
    dtype = atomic_dtype(draft, choices) if memory is None else memory.dtype
    value = draft.like(dtype, choices)
    commuting = [] if dtype.is_float else list(EITHER_WAY)
    if style == 0 and commuting:
        kind = choices.of(commuting)
        base = draft.counter(dtype, kind)
        offset = draft.small(choices, COUNTERS)
        draft.put(metal.Atomic(kind, base, offset, value))
        return
    if memory is not None and style > 2 and commuting:
        kind = choices.of(commuting)
        if draft.access(memory, Touch(kind, None), choices):
            at = draft.offset(memory, draft.small(choices, memory.size), 1)
            draft.put(metal.Atomic(kind, memory.base, at, value))
            return
    place = revisit(draft, Use.WRITE, choices)
    if place is None or not may_update(draft, place, dtype):
        place = None if memory is None else shared_place(draft, memory, Use.WRITE, 1, choices)
    if place is None:
        place = own_place(draft, dtype, 1, choices)
    draft.places.append(place)
    kind = choices.of([*commuting, AtomicKind.EXCHANGE])
    draft.add(metal.Atomic(kind, place.base, place.offset, value))


@make_metal(metal.CompareExchange)
def compare_exchange(cls: type[metal.CompareExchange], draft: MetalDraft, choices: Choices) -> None:
    """Tried again where it fails for no reason: to update what all programs do, or to replace an
    element of the thread's own if it is as expected."""
    if draft.quiet:
        return
    dtype = atomic_dtype(draft, choices)
    value = draft.like(dtype, choices)
    if choices.flag():
        kind = choices.of([k for k in EITHER_WAY if not dtype.is_float or k in NUMERIC])
        value = draft.exact(value, SUMMED, SUMMED)
        base = draft.counter(dtype, kind)
        # As many turns of the loop as threads meet at one element: so few do.
        further = draft.constant(choices.below(COUNTERS), i32)
        offset = draft.wrapped(draft.put(math.Add(draft.thread, further)), COUNTERS)
        first = draft.put(metal.AtomicLoad(base, offset))

        def updated(old: Value) -> Value:
            return draft.put(EITHER_WAY[kind](old, value))

        retry(draft, base, offset, first, updated, always=True)
        return
    place = own_place(draft, dtype, 1, choices)
    expected = draft.like(dtype, choices)
    if dtype.is_float:  # bits are compared, and those of a nan are not defined
        expected = draft.put(math.MaxNum(expected, draft.constant(-1.0, dtype)))
    op = retry(draft, place.base, place.offset, expected, lambda old: value, always=False)
    draft.carry_out(op, VARYING)


def retry(
    draft: MetalDraft,
    base: Value,
    offset: Value,
    first: Value,
    new: Callable[[Value], Value],
    *,
    always: bool,
) -> While:
    """Exchange the element that is expected, at first this one: until it is done or, unless
    `always`, something else is there."""
    op = While([draft.constant(True, bool_), first])
    draft.builder.insert(op)
    with draft.under(op.condition, VARYING):
        draft.builder.insert(Yield([op.condition.arguments[0]]))
    with draft.under(op.body, VARYING):
        expected = op.body.arguments[1] if always else first
        exchange = metal.CompareExchange(base, offset, expected, new(expected))
        draft.builder.insert(exchange)
        more = draft.put(math.Not(exchange.done))
        if not always:
            bits = [draft.put(math.Bitcast(v, u32)) for v in (exchange.old, first)]
            more = draft.put(math.And(more, draft.put(math.Compare(Predicate.EQ, *bits))))
        draft.builder.insert(Yield([more, exchange.old]))
    return op


@make_metal(metal.Fence)
def publish(cls: type[metal.Fence], draft: MetalDraft, choices: Choices) -> None:
    """Each program leaves a number, and the last to do so adds up all of them."""
    dtype = choices.of([d for d in draft.dtypes if d.is_integer] or [i32])
    if draft.quiet:
        return
    # What comes later takes arrays, too.
    if draft.depth or not draft.divergent or draft.spare_arrays < MOST_ARRAYS // 2:
        draft.builder.insert(metal.Fence())
        return
    tickets = draft.argument("tickets", Array(i32, (1,)), noalias=False)
    parts = draft.argument("parts", Array(dtype, (draft.programs,)), noalias=choices.flag())
    total = draft.argument("total", Array(dtype, (1,)), noalias=choices.flag())
    value = draft.like(dtype, choices)
    zero, one = draft.constant(0, i32), draft.constant(1, i32)
    with draft.only_where(draft.thread, zero):
        draft.builder.insert(metal.Store(parts, draft.program, value))
        draft.builder.insert(metal.Fence())
        ticket = draft.put(metal.Atomic(AtomicKind.ADD, tickets, zero, one))
        with draft.only_where(ticket, draft.constant(draft.programs - 1, i32)):
            draft.builder.insert(metal.Fence())
            found = [
                draft.put(metal.Load(parts, draft.constant(n, i32), result=dtype))
                for n in range(draft.programs)
            ]
            while len(found) > 1:
                found.append(draft.put(math.Add(found.pop(), found.pop())))
            draft.builder.insert(metal.Store(total, draft.constant(0, i32), found[0]))


@make_metal(metal.MmaShared)
def mma_shared(cls: type[metal.MmaShared], draft: MetalDraft, choices: Choices) -> None:
    """Of whole numbers that threads put there for it, which may be added up in any order."""
    dtypes = [d for d in draft.all_dtypes if d.is_float]
    if not dtypes or not may_allocate(draft):
        return
    dtype = choices.of(dtypes)
    rows, columns, depth = metal.TENSOR_PRODUCT
    size = depth * columns
    base = allocation(draft, Threadgroup(size, dtype))
    draft.meet(Scope.THREADGROUP)  # in a loop, the iteration before reads it
    for part in range(0, size, draft.threads):
        value = draft.exact(draft.like(dtype, choices), SUMMED, SUMMED)
        at = draft.put(math.Add(draft.thread, draft.constant(part, i32)))
        draft.builder.insert(metal.Store(base, at, value))
    draft.meet(choices.of((Scope.THREADGROUP, Scope.DEVICE)))
    acc = draft.like(registers(rows * columns // SIMDGROUP_WIDTH, f32), choices)
    acc = draft.exact(acc, SUMMED, SUMS_AT_MOST - depth * SUMMED**2)
    acc = draft.put(math.Add(acc, draft.constant(0, element_type(acc.type))))
    starts = [draft.constant(16 * choices.below(3), i32), draft.constant(0, i32)]
    product = metal.MmaShared(
        (rows, columns, depth), (depth, columns), base, starts[0], base, starts[1], acc
    )
    draft.add(product)
