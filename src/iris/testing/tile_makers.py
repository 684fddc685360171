"""How each op of Tile IR is made in a random program: one rule per op, none of which can go
wrong, as in `elementwise.py`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import permutations
from math import inf, prod

from iris.ir import math, tile
from iris.ir.control import For, If, While, Yield
from iris.ir.core import Op, Region, Value
from iris.ir.kinds import COLLECTED_BITS, AtomicKind, ReduceKind, ScanKind
from iris.ir.math import Predicate, element_type
from iris.ir.types import MAX_RANK, DType, ElementType, Tile, Type, bool_, f16, f32, i32
from iris.testing.access import block, other_name, place, read, revisit, write
from iris.testing.bands import attend, go_over_band
from iris.testing.choices import Choices
from iris.testing.draft import special_number
from iris.testing.elementwise import ALL, NUMBERS, SUMMED, SUMS_AT_MOST, summable
from iris.testing.idioms import (
    go_over_rows,
    load_rows,
    long_row,
    multiply_blocks,
    multiply_twice,
    pass_on,
    store_rows,
)
from iris.testing.overwrites import overwrite
from iris.testing.places import Memory, Place
from iris.testing.plain_products import multiply_plainly
from iris.testing.strips import go_along
from iris.testing.tables import below, size
from iris.testing.tiles import MOST_ELEMENTS, MOST_TRIPS, TileDraft, make_tile
from iris.testing.uneven import (
    convert_where,
    divide_where,
    mask_unevenly,
    meet,
    multiply_itself,
    multiply_unevenly,
    normalise,
)
from iris.testing.walks import walk_rows

_DIVISIONS = (math.FloorDiv, math.Mod)
INDEX_MATH = (*_DIVISIONS, math.Sub, math.Sub, *_DIVISIONS, math.Mul, math.Add, math.Minimum)
PLACES = (ReduceKind.ARGMAX, ReduceKind.ARGMIN)
EXTREMES = (ReduceKind.MAXIMUM, ReduceKind.MINIMUM, *PLACES)
ATOMIC = tuple([d for d in ALL if d.bits == 32])  # on every device


# Control flow.


def fill(draft: TileDraft, region: Region, types: Sequence[Type], choices: Choices) -> None:
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


def carried(draft: TileDraft, choices: Choices) -> list[Value]:
    """None, one, or two, which may be of one type and so be confused."""
    number = choices.below(3)
    values = [draft.some(ALL, choices)] if number else []
    if number == 2:
        same = choices.flag()
        values.append(draft.other(values[0], choices) if same else draft.some(ALL, choices))
    return values


@make_tile(If)
def branch(cls: type[If], draft: TileDraft, choices: Choices) -> None:
    is_own = choices.flag(4)
    condition = flag_of_program(draft, choices) if is_own else draft.like(bool_, choices)
    if choices.flag(4):
        condition = draft.put(math.Not(condition))
    op = If(condition, [v.type for v in carried(draft, choices)])
    draft.builder.insert(op)
    for region in op.regions:
        fill(draft, region, [v.type for v in op.results], choices)
    draft.add_built(op)


def flag_of_program(draft: TileDraft, choices: Choices) -> Value:
    """What an array says of each program, and of the last ones maybe nothing."""
    memory = draft.input(choices.of((i32, bool_, *draft.dtypes)), choices)
    index = draft.wrapped(draft.number, memory.size)
    mask = below(draft, index, choices.below(draft.programs + 1), choices)
    number = read(draft, Place(memory, (), index, mask, distinct=False), choices, 0)
    predicate = choices.of((Predicate.EQ, Predicate.LE, Predicate.NE, Predicate.GT))
    zero = draft.constant(0, memory.dtype)
    return draft.put(math.Compare(predicate, number, zero))


@make_tile(For)
def count(cls: type[For], draft: TileDraft, choices: Choices) -> None:
    """Few iterations, of a number that is a constant, a parameter, or each program's own; or over
    the blocks of rows."""
    style = choices.below(8)
    if style > 2 and draft.is_shallow:
        loops = (go_over_rows, go_over_rows, walk_rows, walk_rows, go_over_band)
        draft.add_built(loops[style - 3](draft, choices))
        return
    dtype = choices.of([d for d in (i32, *draft.all_dtypes) if d.is_integer])
    lower = bound(draft, dtype, choices, (0, 0, 1, 0, 2))
    upper = bound(draft, dtype, choices, (2, 3, 1, 4, 3, 0))
    step = draft.constant(choices.of((1, 2, 1, 3, 5)), dtype)
    if choices.flag(4):
        step = draft.put(math.Or(draft.wrapped(lower, 2), draft.constant(1, dtype)))
        if dtype.is_signed and choices.flag():
            step = draft.put(math.Add(draft.put(math.Neg(step)), draft.constant(3, dtype)))
    if choices.flag(6):  # not 0 where it counts
        step = draft.divisor(dtype, choices)
    if dtype.is_signed and choices.flag(4):
        lower, upper, step = upper, lower, draft.constant(-1, dtype)
    op = For(lower, upper, step, carried(draft, choices))
    draft.builder.insert(op)
    fill(draft, op.body, [v.type for v in op.results], choices)
    draft.add_built(op)


def bound(draft: TileDraft, dtype: DType, choices: Choices, constants: Sequence[int]) -> Value:
    style = choices.below(6)
    if style == 3:
        return draft.wrapped(draft.like(dtype, choices), MOST_TRIPS)
    if style == 2:
        own = draft.wrapped(draft.number, MOST_TRIPS)
        return own if dtype is i32 else draft.put(math.Cast(own, dtype))
    if style == 1:
        return draft.wrapped(draft.scalar(dtype), MOST_TRIPS)
    if style == 4 and dtype is i32:
        return draft.parameter(choices.of(constants))
    return draft.constant(choices.of(constants), dtype)


@make_tile(While)
def repeat(cls: type[While], draft: TileDraft, choices: Choices) -> None:
    """A counter makes an end of it, if nothing else does before."""
    start = draft.small(choices, MOST_TRIPS)
    op = While([start, *carried(draft, choices)])
    draft.builder.insert(op)
    with draft.inside(op.condition):
        if choices.flag(4):
            draft.step()
        if choices.flag(4):  # something that is done each time that is asked
            found, value = place_to_write(draft, choices, ALL)
            write(draft, found, value)
        limit = draft.constant(choices.of((MOST_TRIPS, 2, 3, 1)), i32)
        more = draft.put(math.Compare(Predicate.LT, op.condition.arguments[0], limit))
        if choices.flag():
            more = draft.put(math.And(more, draft.like(bool_, choices)))
        if choices.flag(5):  # once
            more = draft.constant(False, bool_)
        draft.builder.insert(Yield([more]))
    fill(draft, op.body, [v.type for v in op.results], choices)
    with draft.inside(op.body):
        end = op.body.end
        end.detach()
        draft.memo.clear()  # of what stands before this body
        following = draft.put(math.Add(op.body.arguments[0], draft.constant(1, i32)))
        end.set_operands((following, *end.operands[1:]))
        draft.builder.insert(end)
    draft.add_built(op)


# Where a program is, and the shapes of tiles.


@make_tile(tile.ProgramId, tile.NumPrograms)
def place_in_grid(cls: type[Op], draft: TileDraft, choices: Choices) -> None:
    draft.add(cls(choices.below(3)))


@make_tile(tile.Extent)
def extent(cls: type[tile.Extent], draft: TileDraft, choices: Choices) -> None:
    memory = choices.of([*draft.inputs, *draft.owned] or [draft.input(draft.dtypes[0])])
    draft.add(tile.Extent(choices.below(len(memory.recipe.shape)), memory.pointer))


@make_tile(tile.Arange)
def arange(cls: type[tile.Arange], draft: TileDraft, choices: Choices) -> None:
    size = choices.of([*{max(shape) for shape in draft.shapes}, 4])
    dtypes = [d for d in (i32, *draft.dtypes) if d.is_integer]
    dtype = choices.of(dtypes)
    start = choices.of((0, 1, -2, 40))
    style = choices.below(5)
    if style > 2:
        index_math(draft, choices)
        return
    if style == 2:
        draft.visible.append(draft.lanes(choices.of(draft.shapes)))
        return
    draft.add(tile.Arange(max(start, dtype.low), Tile((size,), dtype)))


def index_math(draft: TileDraft, choices: Choices) -> None:
    """What indices are made of: the numbers of elements, and small ones."""
    x = draft.lanes(choices.of(draft.shapes))
    type_ = element_type(x.type)
    for _ in range(1 + choices.below(4)):
        if choices.flag(3):
            other = draft.spread(draft.scalar(i32), type_.shape)  # which is not 0
        else:
            other = draft.constant(choices.of((2, 3, 8, 1, 5, 16, -3, -1)), type_)
        cls = choices.of(INDEX_MATH)
        pair = (other, x) if cls is math.Sub and not choices.flag(3) else (x, other)
        x = draft.put(cls(*pair))
    draft.visible.append(x)


@make_tile(tile.Broadcast)
def broadcast(cls: type[tile.Broadcast], draft: TileDraft, choices: Choices) -> None:
    x = draft.some(ALL, choices, lambda t: not t.shape or 1 in t.shape)
    type_ = element_type(x.type)
    if not type_.shape:
        draft.add(tile.Broadcast(x, Tile(choices.of(draft.shapes), type_.element)))
        return
    shape = list(type_.shape)
    for axis, extent in enumerate(shape):
        larger = choices.of((4, 8, 2, 16, 1))
        if extent == 1 and prod(shape) * larger <= MOST_ELEMENTS:
            shape[axis] = larger
    draft.add(tile.Broadcast(x, Tile(tuple(shape), type_.element)))


@make_tile(tile.ExpandDims)
def expand_dims(cls: type[tile.ExpandDims], draft: TileDraft, choices: Choices) -> None:
    x = draft.find(lambda t: 1 <= len(t.shape) < MAX_RANK, choices)
    if x is None:
        x = draft.lanes((8,))
    draft.add(tile.ExpandDims(choices.below(len(element_type(x.type).shape) + 1), x))


@make_tile(tile.Reshape)
def reshape(cls: type[tile.Reshape], draft: TileDraft, choices: Choices) -> None:
    """Any shape of as many elements."""
    x = draft.some_shaped(ALL, choices)
    type_ = element_type(x.type)
    shapes = _shapes(prod(type_.shape))
    draft.add(tile.Reshape(x, Tile(choices.of(shapes), type_.element)))


def _shapes(count: int) -> list[tuple[int, ...]]:
    powers = [1 << n for n in range(count.bit_length())]
    pairs = [(a, count // a) for a in powers]
    return [
        (count,),
        *pairs,
        *[(a, b, rest // b) for a, rest in pairs for b in powers if b <= rest],
    ]


@make_tile(tile.Transpose)
def transpose(cls: type[tile.Transpose], draft: TileDraft, choices: Choices) -> None:
    x = draft.find(lambda t: len(t.shape) > 1, choices)
    if choices.flag(5):
        sides = (64, 32, 16, 8, 64, 2)
        shape = draft.fitting((choices.of(sides), choices.of(sides)))
        x = draft.whole(Tile(shape, choices.of(draft.dtypes)), choices)
    elif x is None:
        x = draft.leaf(Tile((4, 4), choices.of(draft.dtypes)))
    same, *others = permutations(range(len(element_type(x.type).shape)))
    draft.add(tile.Transpose(choices.of([*others[::-1] * 3, same]), x))


@make_tile(tile.Flip)
def flip(cls: type[tile.Flip], draft: TileDraft, choices: Choices) -> None:
    x = long_row(draft, choices) if choices.flag(4) else draft.some_shaped(ALL, choices)
    draft.add(tile.Flip(choices.below(len(element_type(x.type).shape)), x))


@make_tile(tile.Pick)
def pick(cls: type[tile.Pick], draft: TileDraft, choices: Choices) -> None:
    x = long_row(draft, choices) if choices.flag(3) else draft.some_shaped(ALL, choices)
    shape = element_type(x.type).shape
    axis = choices.below(len(shape))
    draft.add(tile.Pick(axis, choices.below(shape[axis]), x))


@make_tile(tile.Gather)
def gather(cls: type[tile.Gather], draft: TileDraft, choices: Choices) -> None:
    """By integers, only the lower bits of which count."""
    x = draft.some_shaped(ALL, choices)
    shape = list(element_type(x.type).shape)
    axis = choices.below(len(shape))
    dtype = choices.of((i32, *[d for d in draft.dtypes if d.is_integer]))
    size = shape[axis]
    others = prod(shape) // size
    shape[axis] = choices.of((size, *[n for n in (8, 2, 32) if others * n <= MOST_ELEMENTS]))
    type_ = Tile(tuple(shape), dtype)
    index = draft.whole(type_, choices)
    index = draft.put(math.And(index, draft.constant(min(size - 1, dtype.high), type_)))
    draft.add(tile.Gather(axis, x, index))


# Memory.


def readable(draft: TileDraft, dtype: DType, choices: Choices) -> Memory:
    return draft.own(dtype, choices) if choices.flag() else draft.input(dtype, choices)


def some_type(draft: TileDraft, choices: Choices) -> ElementType:
    types = draft.types(choices.of(draft.dtypes))
    return choices.of([*types[1:], types[0]])


def place_to_read(draft: TileDraft, choices: Choices) -> tuple[Place, ElementType]:
    found = revisit(draft, choices, distinct=False)
    if found is None:
        type_ = some_type(draft, choices)
        memory = readable(draft, type_.element, choices)
        found = place(draft, memory, type_.shape, choices, distinct=False)
    return found, found.type


@make_tile(tile.Load)
def load(cls: type[tile.Load], draft: TileDraft, choices: Choices) -> None:
    style = choices.below(11)
    if style > 7:
        go_along(draft, choices)
        return
    if style == 7:
        load_in_loop(draft, choices)
        return
    if style == 6:
        choices.of((look_up, read_ring))(draft, choices)
        return
    if style in (3, 4, 5):
        load_rows(draft, choices)
        return
    found, type_ = place_to_read(draft, choices)
    other = None if found.mask is None else draft.like(type_, choices)
    volatile = choices.flag(8)
    op = tile.Load(found.memory.pointer, found.offset, found.mask, other, volatile=volatile)
    draft.add(op)
    if found.mask is None:
        draft.learn(op.result, found.memory)


def look_up(draft: TileDraft, choices: Choices) -> None:
    """What stands in a table at numbers that are read, too, as for words."""
    shape = choices.of(draft.shapes)
    numbers = place(draft, draft.input(i32, choices), shape, choices, distinct=False)
    if numbers.mask is None and choices.flag():
        numbers = numbers._replace(mask=draft.like(Tile(shape, bool_), choices))
    table = draft.input(choices.of(draft.dtypes), choices)
    index = draft.wrapped(read(draft, numbers, choices, 0), table.size)
    read(draft, Place(table, shape, index, None, distinct=False), choices)


def read_ring(draft: TileDraft, choices: Choices) -> None:
    """What follows somewhere in an array, up or down; after its last element, the first."""
    shape = choices.of([(128,), (256,), choices.of(draft.shapes)])
    memory = draft.input(choices.of(draft.dtypes), choices)
    start = draft.spread(size(draft, choices.of((16, 0, 64, 33)), choices), shape)
    step = choices.of((math.Sub, math.Add))
    offset = draft.put(step(start, draft.lanes(shape)))
    offset = draft.put(math.Mod(offset, draft.constant(memory.size, Tile(shape, i32))))
    read(draft, Place(memory, shape, offset, None, distinct=False), choices)


def load_in_loop(draft: TileDraft, choices: Choices) -> None:
    """The element before the one at the end of the loop, or of a number that a branch asks for, if
    there is one."""
    memory = draft.input(choices.of(draft.dtypes), choices)
    upper = draft.small(choices, min(memory.size, MOST_TRIPS))
    if choices.flag(6):
        upper = draft.constant(0, i32)
    otherwise = draft.scalar(memory.dtype)
    is_asked = draft.like(bool_, choices) if choices.flag() else None
    with ExitStack() as stack:
        if choices.flag(3):
            is_there = draft.put(math.Compare(Predicate.NE, upper, draft.constant(0, i32)))
            stack.enter_context(draft.entered_if(is_there, otherwise))
        else:
            stack.enter_context(draft.entered_if_not_zero(upper, otherwise))
        if is_asked is not None:
            stack.enter_context(draft.perhaps(is_asked, otherwise))
        index = draft.put(math.Sub(upper, draft.constant(1, i32)))
        draft.builder.insert(Yield([draft.put(tile.Load(memory.pointer, index))]))


@make_tile(tile.MaskedLoad)
def masked_load(cls: type[tile.MaskedLoad], draft: TileDraft, choices: Choices) -> None:
    style = choices.below(8)
    if style > 4:
        products = (multiply_unevenly, multiply_unevenly)
        several = (normalise, meet, divide_where, meet, convert_where, normalise, *products)
        if draft.is_shallow and choices.flag(5):
            draft.add_built(go_over_band(draft, choices))
            return
        both = (*several, multiply_itself, multiply_itself)
        choices.of(both if draft.is_shallow else several)(draft, choices)
        return
    found, type_ = place_to_read(draft, choices)
    mask = found.mask
    if mask is None and type_.shape and style > 2:
        mask = mask_unevenly(draft, type_.shape, choices)
    elif mask is None:
        mask = draft.like(type_.with_element(bool_), choices)
    draft.add(tile.MaskedLoad(found.memory.pointer, found.offset, mask))


@make_tile(tile.Update)
def update(cls: type[tile.Update], draft: TileDraft, choices: Choices) -> None:
    """A new value; or one that something is added to, at times to -0.0, and that may also be
    stored as it was before it was an update; or one that is masked elsewhere than the old one."""
    style = choices.below(4)
    if style > 1:
        (add_up if style == 2 else meet)(draft, choices)
        return
    old = draft.some(ALL, choices)
    draft.add(tile.Update(old, draft.other(old, choices)))


def add_up(draft: TileDraft, choices: Choices) -> None:
    type_ = element_type(draft.some_shaped(NUMBERS, choices).type)
    assert isinstance(type_, Tile)
    x = draft.alike(
        type_, choices.of((3, 0, -1 if type_.element.is_signed else 1)), 1 + choices.below(3)
    )
    is_nothing = type_.element.is_float and choices.flag()
    old = draft.constant(-0.0, type_) if is_nothing else draft.like(type_, choices)
    new = draft.put(math.Add(old, x))
    draft.add(tile.Update(old, new))
    if choices.flag():
        memory = draft.own(type_.element, choices)
        write(draft, place(draft, memory, type_.shape, choices, distinct=True), new)


def place_to_write(
    draft: TileDraft, choices: Choices, dtypes: Sequence[DType]
) -> tuple[Place, Value]:
    """Where in what is a program's own, and what of these dtypes goes there."""
    found = revisit(draft, choices, distinct=True)
    if found is not None and found.memory.dtype in dtypes:
        return found, draft.like(found.type, choices)
    value = draft.some(dtypes, choices)
    type_ = element_type(value.type)
    memory = draft.own(type_.element, choices)
    return place(draft, memory, type_.shape, choices, distinct=True), value


@make_tile(tile.Store)
def store(cls: type[tile.Store], draft: TileDraft, choices: Choices) -> None:
    style = choices.below(11)
    if style == 7:
        go_along(draft, choices)
        return
    if style == 6 and draft.is_shallow:
        draft.add_built(pass_on(draft, choices))
        return
    if 3 < style < 8:
        store_rows(draft, choices)
        return
    found, value = place_to_write(draft, choices, ALL)
    if style > 7:
        overwrite(draft, found, value, choices)
    elif style == 3 and choices.flag():
        store_between(draft, found, choices)
    elif style == 3:
        store_in_loop(draft, found, value, choices)
    elif style == 2:
        # Again what was there, which may be what it was before, or not.
        before = read(draft, other_name(draft, found, choices), choices)
        write(draft, found, value)
        assert before.op is not None
        draft.add(before.op.clone({}))
    else:
        write(draft, found, value)


def store_in_loop(draft: TileDraft, place: Place, value: Value, choices: Choices) -> None:
    """A loop that reads where it has written in the round before, or only seems to."""
    source = other_name(draft, place, choices)
    rounds = draft.constant(choices.of((2, 3, 1)), i32)
    step = draft.constant(1, i32)
    loop = For(draft.constant(0, i32), rounds, step, [value])
    draft.builder.insert(loop)
    with draft.inside(loop.body):
        seen = read(draft, source, choices)
        draft.step()
        write(draft, place, draft.like(value.type, choices))
        draft.builder.insert(Yield([seen]))
    draft.add_built(loop)


def store_between(draft: TileDraft, found: Place, choices: Choices) -> None:
    """The same read before, in and after a branch or a loop in which something is written."""
    before = read(draft, other_name(draft, found, choices), choices).op
    assert before is not None
    zero, one, two = (draft.constant(n, i32) for n in (0, 1, 2))
    op = For(zero, two, one) if choices.flag() else If(draft.like(bool_, choices))
    draft.builder.insert(op)
    with draft.inside(op.regions[0]):
        if choices.flag():
            draft.add(before.clone({}))
            seen = place(
                draft, draft.own(found.type.element, choices), found.shape, choices, distinct=True
            )
            write(draft, seen, draft.visible[-1])
        changed = draft.like(found.type, choices)
        if found.type.element is not bool_:
            changed = draft.put(math.Add(changed, draft.constant(1, found.type)))
        write(draft, found, changed)
        draft.builder.insert(Yield([]))
    for region in op.regions[1:]:
        with draft.inside(region):
            draft.builder.insert(Yield([]))
    draft.add(before.clone({}))


@make_tile(tile.LoadTile)
def load_tile(cls: type[tile.LoadTile], draft: TileDraft, choices: Choices) -> None:
    type_ = Tile(choices.of(draft.shapes), choices.of(draft.dtypes))
    memory = readable(draft, type_.element, choices)
    offsets, strides, bounds, limit = block(draft, memory, type_.shape, choices)
    draft.add(tile.LoadTile(memory.pointer, limit, offsets, strides, bounds, type_))


@make_tile(tile.StoreTile)
def store_tile(cls: type[tile.StoreTile], draft: TileDraft, choices: Choices) -> None:
    value = draft.some_shaped(ALL, choices)
    type_ = element_type(value.type)
    memory = draft.own(type_.element, choices)
    offsets, strides, bounds, limit = block(draft, memory, type_.shape, choices)
    op = tile.StoreTile(memory.pointer, value, limit, offsets, strides, bounds)
    draft.builder.insert(op)


@make_tile(tile.Atomic)
def atomic(cls: type[tile.Atomic], draft: TileDraft, choices: Choices) -> None:
    """Of a program's own elements, or of ones that all programs update."""
    style = choices.below(5)
    if style == 4:
        update_twice(draft, choices)
    elif style > 1:
        found, value = place_to_write(draft, choices, ATOMIC)
        kind = choices.of([*kinds_of(found.memory.dtype), AtomicKind.EXCHANGE])
        draft.add(tile.Atomic(kind, found.memory.pointer, found.offset, value, found.mask))
        if choices.flag(3):
            kind = choices.of(kinds_of(found.memory.dtype))
            draft.add(tile.Atomic(kind, found.memory.pointer, found.offset, value, found.mask))
    else:
        count_up(draft, choices)


def update_twice(draft: TileDraft, choices: Choices) -> None:
    """Elements of a program, some of them several times, in one way and then in another."""
    value = draft.some(ATOMIC, choices)
    type_ = element_type(value.type)
    value = draft.exact(value, SUMMED, SUMMED)
    memory = draft.own(type_.element, choices)
    found = place(draft, memory, type_.shape, choices, distinct=False)
    if type_.shape and not memory.ragged:
        few = draft.wrapped(draft.lanes(type_.shape), min(memory.size, 4))
        found = found._replace(offset=draft.from_start(memory.stride, few))
    for _ in range(2):
        kind = choices.of(kinds_of(type_.element))
        draft.put(tile.Atomic(kind, memory.pointer, found.offset, value, found.mask))


def kinds_of(dtype: DType) -> list[AtomicKind]:
    """The kinds of which the order does not matter."""
    kinds = [AtomicKind.ADD, AtomicKind.MAX, AtomicKind.MIN]
    return kinds + ([] if dtype.is_float else [AtomicKind.AND, AtomicKind.OR, AtomicKind.XOR])


def count_up(draft: TileDraft, choices: Choices) -> None:
    """All programs update an array in one way only, and do not use what was there before."""
    value = draft.some(ATOMIC, choices)
    type_ = element_type(value.type)
    kind = choices.of(kinds_of(type_.element))
    if kind is AtomicKind.ADD:
        value = draft.exact(value, SUMMED, SUMMED)
    memory = draft.counter(type_.element, kind)
    found = place(draft, memory, type_.shape, choices, distinct=False)
    collects = kind is AtomicKind.ADD and type_.element.bits == COLLECTED_BITS
    bins = memory.size if collects and choices.flag() else 0
    draft.put(tile.Atomic(kind, memory.pointer, found.offset, value, found.mask, bins=bins))
    if choices.flag(3):  # what others have added meanwhile
        shape = choices.of(((16,), (4,), (2, 8), (8,)))
        draft.put(tile.Load(memory.pointer, draft.lanes(shape), volatile=True))


@make_tile(tile.AtomicCas)
def atomic_cas(cls: type[tile.AtomicCas], draft: TileDraft, choices: Choices) -> None:
    found, value = place_to_write(draft, choices, ATOMIC)
    expected = draft.like(value.type, choices)
    if found.memory.dtype.is_float:  # bits are compared, and those of a nan are not defined
        type_ = element_type(value.type)
        if choices.flag():
            expected = draft.constant(choices.of((0.0, -0.0)), type_)
        else:
            expected = draft.put(math.MaxNum(expected, draft.constant(-1.0, type_)))
    draft.add(tile.AtomicCas(found.memory.pointer, found.offset, expected, value, found.mask))


# What combines elements.


@make_tile(tile.Dot)
def dot(cls: type[tile.Dot], draft: TileDraft, choices: Choices) -> None:
    style = choices.below(9)
    if draft.is_shallow and style > 3:
        kinds = (multiply_blocks, multiply_blocks, multiply_plainly, attend, multiply_plainly)
        draft.add_built(kinds[style - 4](draft, choices))
        return
    if style in (2, 3):
        multiply_twice(draft, choices)
        return
    # What is multiplied element by element takes the interpreter long.
    a = draft.find(
        lambda t: len(t.shape) == 2 and t.element is not bool_ and max(t.shape) <= 64, choices
    )
    if a is None or choices.flag():
        numbers = [d for d in draft.dtypes if d is not bool_] or [i32]
        dtype = choices.of([*numbers, *[d for d in numbers if d.is_float] * 2])
        rows, depth = choices.of((8, 16, 4, 8, 1, 2)), choices.of((8, 16, 2, 8, 64))
        a = draft.leaf(Tile((rows, depth), dtype))
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
        acc = draft.like(Tile((rows, columns), choices.of([usual, dtype, *like])), choices)
        acc = draft.exact(acc, SUMMED, SUMS_AT_MOST - depth * SUMMED**2)
    if style == 1 and min(rows, columns) > 1:
        multiply_halves(draft, a, b)
        return
    tf32 = dtype is f32 and acc is None and choices.flag()
    if tf32:
        a, b = (of_tf32(draft, x) for x in (a, b))
    op = tile.Dot(a, b, acc, tf32=tf32)
    draft.add(op)
    if acc is None and dtype.is_float:
        draft.bounds[op.result] = depth * SUMMED**2
    if acc is not None and choices.flag(4):  # which is used again
        other = draft.exact(draft.other(a, choices), SUMMED, SUMMED)
        draft.add(tile.Dot(other, b, acc))


def of_tf32(draft: TileDraft, x: Value) -> Value:
    """Numbers of f32, whatever they are, made into ones of f16: tf32 has all of them."""
    type_ = element_type(x.type)
    return draft.put(math.Cast(draft.put(math.Cast(x, type_.with_element(f16))), type_))


def multiply_halves(draft: TileDraft, a: Value, b: Value) -> None:
    """The upper rows of one matrix times the left columns of another, and what is left of both."""
    (rows, depth), (_, columns) = (element_type(x.type).shape for x in (a, b))
    dtype = element_type(a.type).element
    upper = draft.put(tile.Reshape(a, Tile((2, rows // 2, depth), dtype)))
    halves = draft.put(tile.Reshape(b, Tile((depth, 2, columns // 2), dtype)))
    op = tile.Dot(upper, draft.put(tile.Transpose((1, 0, 2), halves)))
    draft.add(op)
    if dtype.is_float:
        draft.bounds[op.result] = depth * SUMMED**2


@make_tile(tile.Reduce)
def reduce(cls: type[tile.Reduce], draft: TileDraft, choices: Choices) -> None:
    x = long_row(draft, choices) if choices.flag(4) else draft.some_shaped(ALL, choices)
    type_ = element_type(x.type)
    if choices.flag(10):
        x = draft.constant(special_number(type_.element, choices), type_)
    truth = (ReduceKind.ANY, ReduceKind.ALL)
    of_bools = type_.element is bool_
    kind = choices.of([k for k in (*ReduceKind, *PLACES) if (k in truth) is of_bools])
    axis = choices.below(len(type_.shape))
    x = summable(draft, x, kind.value, type_.shape[axis])
    if kind in EXTREMES and choices.flag(3):
        x = extreme(draft, x, kind, choices)
    elif kind is ReduceKind.SUM and type_.element.is_float and choices.flag(3):
        assert isinstance(type_, Tile)
        x = draft.alike(type_, -0.0, choices.below(3))
        draft.bounds[x] = 0
    numbers = None  # instead of the places along the axis
    if kind in PLACES and choices.flag(3):
        numbers = draft.like(element_type(x.type).with_element(i32), choices)
    draft.add(tile.Reduce(kind, axis, x, numbers))
    if len(type_.shape) > 1 and choices.flag(4):  # along another axis, too
        draft.add(tile.Reduce(kind, (axis + 1) % len(type_.shape), x))
    elif choices.flag(3):
        spread_again(draft, axis, type_.shape)


def extreme(draft: TileDraft, x: Value, kind: ReduceKind, choices: Choices) -> Value:
    """A tile whose elements all are what a reduction of nothing gives, or nan."""
    first = choices.below(3)
    type_ = element_type(x.type)
    assert isinstance(type_, Tile)
    dtype = type_.element
    if kind in (ReduceKind.MINIMUM, ReduceKind.ARGMIN):
        most = draft.alike(type_, inf if dtype.is_float else dtype.high, first)
        return draft.put(math.Maximum(x, most))
    least = draft.alike(type_, -inf if dtype.is_float else dtype.low, first)
    return draft.put(math.Minimum(x, least))


def spread_again(draft: TileDraft, axis: int, shape: tuple[int, ...]) -> None:
    """The latest value, a reduction, in every element of what it was made of."""
    found = draft.visible[-1]
    if len(shape) > 1:
        found = draft.put(tile.ExpandDims(axis, found))
    draft.add(tile.Broadcast(found, Tile(shape, element_type(found.type).element)))


@make_tile(tile.Scan)
def scan(cls: type[tile.Scan], draft: TileDraft, choices: Choices) -> None:
    x = long_row(draft, choices) if choices.flag(3) else draft.some_shaped(NUMBERS, choices)
    kind = choices.of(list(ScanKind))
    shape = element_type(x.type).shape
    axis = choices.below(len(shape))
    draft.add(tile.Scan(kind, axis, summable(draft, x, kind.value, shape[axis])))


# Reports.


@make_tile(tile.Assert)
def check(cls: type[tile.Assert], draft: TileDraft, choices: Choices) -> None:
    """Something that holds, a condition or its negation; or that holds where it counts."""
    if choices.flag():
        dtype = choices.of([d for d in (i32, *draft.all_dtypes) if d.is_integer])
        type_ = choices.of(draft.types(dtype))
        divisor, zero = draft.divisor(type_, choices), draft.constant(0, type_)
        counts = draft.put(math.Compare(Predicate.NE, divisor, zero))
        draft.builder.insert(tile.Assert("not zero", counts))
        return
    condition = draft.some((bool_,), choices)
    either = draft.put(math.Or(condition, draft.put(math.Not(condition))))
    draft.builder.insert(tile.Assert("one or the other", either))


def changed(draft: TileDraft, x: Value) -> Value:
    """One more, or the negation."""
    type_ = element_type(x.type)
    if type_.element is bool_:
        return draft.put(math.Not(x))
    return draft.put(math.Add(x, draft.constant(1, type_)))


@make_tile(tile.Print)
def report(cls: type[tile.Print], draft: TileDraft, choices: Choices) -> None:
    most = choices.of((8, 128))
    few = [
        draft.some(ALL, choices, lambda t: prod(t.shape) <= most) for _ in range(choices.below(3))
    ]
    # What is masked is not 0 any more.
    few = [changed(draft, x) if choices.flag(3) else x for x in few]
    if not choices.flag(3):
        draft.builder.insert(tile.Print("here", few))
        return
    type_ = choices.of(draft.types(choices.of(draft.dtypes))[:2])
    few.append(draft.constant(special_number(type_.element, choices), type_))
    op = If(draft.like(bool_, choices))
    draft.builder.insert(op)
    for region, text in zip(op.regions, ("here", "there"), strict=True):
        with draft.inside(region):
            draft.builder.insert(tile.Print(text, few))
            draft.builder.insert(Yield([]))
    draft.visible.append(few[-1])
