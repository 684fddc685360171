"""Tiles with masked elements, as rows of different lengths have: loaded under such masks, they are
reduced along each axis, or divided where the divisor is not zero."""

from __future__ import annotations

from itertools import permutations
from math import inf, nan, prod

from iris.ir import math, tile
from iris.ir.control import For, Yield
from iris.ir.core import Op, Value
from iris.ir.kinds import ReduceKind
from iris.ir.literal import encode
from iris.ir.math import Predicate, element_type
from iris.ir.types import DType, ElementType, Tile, bool_, f32, i32
from iris.testing.choices import Choices
from iris.testing.elementwise import CONVERTED, SUMMED, summable
from iris.testing.tables import below
from iris.testing.tiles import MOST_TRIPS, TileDraft
from iris.tools.replay import Array

_SQUARES = ((4, 4), (8, 8), (4, 4), (2, 2), (4, 8))
_KINDS = (
    ReduceKind.SUM,
    ReduceKind.MAXIMUM,
    ReduceKind.SUM,
    ReduceKind.MINIMUM,
    ReduceKind.MAXNUM,
    ReduceKind.ARGMAX,
)


def mask_unevenly(draft: TileDraft, shape: tuple[int, ...], choices: Choices) -> Value:
    """Which elements of a tile count: those below a limit along some axes, or in all; or those on
    one side of a diagonal, so that rows and columns have as many as they have, and some none."""
    several = (_across, _sheared, _within, _within, _flat, _turned, _listed, _single)
    styles = several if len(shape) > 1 else (_within, _flat, _listed)
    return choices.of(styles)(draft, shape, choices)


def _limit(size: int, choices: Choices) -> int:
    return choices.of((size // 2, size - 1, 1, 0, size))


def _flat(draft: TileDraft, shape: tuple[int, ...], choices: Choices) -> Value:
    return below(draft, draft.lanes(shape), _limit(prod(shape), choices), choices)


def _within(draft: TileDraft, shape: tuple[int, ...], choices: Choices) -> Value:
    """Along one axis or more."""
    mask: Value | None = None
    for axis in range(choices.of((0, 0, len(shape) - 1)), len(shape)):
        size = shape[axis]
        index = _along(draft, axis, shape)
        here = _over(draft, below(draft, index, _limit(size, choices), choices), shape)
        both = math.Or if choices.flag(3) else math.And
        mask = here if mask is None else draft.put(both(mask, here))
    assert mask is not None
    return mask


def _turned(draft: TileDraft, shape: tuple[int, ...], choices: Choices) -> Value:
    """Made with the axes in another order, and transposed."""
    same, *others = permutations(range(len(shape)))
    order = choices.of([*others[::-1], same])
    inner = tuple([shape[order.index(axis)] for axis in range(len(shape))])
    return draft.put(tile.Transpose(order, _within(draft, inner, choices)))


def _listed(draft: TileDraft, shape: tuple[int, ...], choices: Choices) -> Value:
    """Those rows, or columns, of which an array says so."""
    axis, rank = choices.below(len(shape)), 1 + choices.below(len(shape))
    x = draft.lanes(shape[axis : axis + 1])
    for other in [a for a in range(len(shape)) if a != axis]:
        if len(element_type(x.type).shape) == rank:
            x = _holds(draft, x, choices)
        x = draft.put(tile.ExpandDims(other, x))
    if element_type(x.type).element is not bool_:
        x = _holds(draft, x, choices)
    return _over(draft, x, shape)


def _single(draft: TileDraft, shape: tuple[int, ...], choices: Choices) -> Value:
    """All or none, as one element says that is spread axis by axis."""
    x = _holds(draft, draft.lanes((1,)), choices)
    for axis in range(1, len(shape)):
        x = draft.put(tile.ExpandDims(choices.of((axis, 0)), x))
    for axis in choices.of(tuple(permutations(range(len(shape))))):
        sizes = list(element_type(x.type).shape)
        sizes[axis] = shape[axis]
        x = _over(draft, x, tuple(sizes))
    return x


def _holds(draft: TileDraft, index: Value, choices: Choices) -> Value:
    """What an array says at some places: which numbers are 0, say, or more than the first."""
    memory = draft.input(choices.of((i32, *draft.dtypes)), choices)
    number = draft.put(tile.Load(memory.pointer, draft.wrapped(index, memory.size)))
    type_ = element_type(number.type)
    limit = draft.constant(0, type_)
    if choices.flag():
        first = draft.put(tile.Load(memory.pointer, draft.constant(0, i32)))
        limit = draft.spread(first, type_.shape)
    predicate = choices.of((Predicate.NE, Predicate.GT, Predicate.EQ, Predicate.LE))
    return draft.put(math.Compare(predicate, number, limit))


def _across(draft: TileDraft, shape: tuple[int, ...], choices: Choices) -> Value:
    """Beside a diagonal, or on it."""
    rows, columns = (_over(draft, _along(draft, axis, shape), shape) for axis in (0, 1))
    predicate = choices.of((Predicate.LT, Predicate.GT, Predicate.GE, Predicate.NE))
    return draft.put(math.Compare(predicate, rows, columns))


def _sheared(draft: TileDraft, shape: tuple[int, ...], choices: Choices) -> Value:
    """Rows that become shorter."""
    rows, columns = (_over(draft, _along(draft, axis, shape), shape) for axis in (0, 1))
    if choices.flag():
        rows = draft.put(math.Mul(rows, draft.constant(2, Tile(shape, i32))))
    total = draft.put(math.Add(rows, columns))
    return below(draft, total, _limit(choices.of(shape[:2]), choices), choices)


def _along(draft: TileDraft, axis: int, shape: tuple[int, ...]) -> Value:
    """The numbers of elements along an axis."""
    index = draft.lanes(shape[axis : axis + 1])
    for other in range(len(shape)):
        if other != axis:
            index = draft.put(tile.ExpandDims(other, index))
    return index


def _over(draft: TileDraft, x: Value, shape: tuple[int, ...]) -> Value:
    """A value in all elements of a tile."""
    type_ = element_type(x.type)
    return x if type_.shape == shape else draft.put(tile.Broadcast(x, Tile(shape, type_.element)))


def _loaded(draft: TileDraft, type_: ElementType, mask: Value, choices: Choices) -> Value:
    """Elements that are loaded where a mask says so; seldom they are all one number."""
    dtype, count = type_.element, prod(type_.shape)
    lanes = draft.lanes(type_.shape) if type_.shape else draft.number
    if type_.shape and choices.flag(3):
        numbers = (-0.0, 1, -0.0, 0) if dtype.is_float else (dtype.low, 0, dtype.high)
        number = choices.of(numbers)
        recipe = Array(dtype, (count,), data=(encode(number, dtype),))
        x = draft.put(tile.MaskedLoad(draft.argument("alike", recipe, noalias=True), lanes, mask))
        if dtype.is_float:
            draft.bounds[x] = 1
        return x
    memory = draft.input(dtype, choices)
    if (count if type_.shape else draft.programs) > memory.size:
        lanes = draft.wrapped(lanes, memory.size)
    x = draft.put(tile.MaskedLoad(memory.pointer, lanes, mask))
    draft.learn(x, memory)
    return x


def normalise(draft: TileDraft, choices: Choices) -> None:
    """A tile set against its own sums, or the like, of one axis: along that axis, or along another
    one that is as long; which may be reduced again."""
    shape = choices.of([*[s for s in draft.shapes if len(s) < 3], *_SQUARES])
    dtype = choices.of([d for d in draft.dtypes if d is not bool_] or [i32])
    type_ = Tile(shape, dtype)
    x = _loaded(draft, type_, mask_unevenly(draft, shape, choices), choices)
    draft.visible.append(x)
    axis = choices.below(len(shape))
    found = _reduced(draft, x, axis, choices)
    others = [a for a in range(len(shape)) if shape[a] == shape[axis]]
    spread = found
    if len(shape) > 1:
        spread = draft.put(tile.ExpandDims(choices.of([axis, *others]), found))
    element = element_type(found.type).element
    spread = draft.put(tile.Broadcast(spread, Tile(shape, element)))
    if element is not dtype:  # a place
        spread = draft.put(math.Compare(Predicate.LE, spread, draft.lanes(shape)))
        draft.add(math.Select(spread, x, draft.other(x, choices)))
    else:
        cls = choices.of((math.Sub, math.Add, math.Maximum, math.Minimum))
        draft.add(cls(*choices.of(((x, spread), (spread, x)))))
    if choices.flag():
        _reduced(draft, draft.visible[-1], choices.below(len(shape)), choices)


def _reduced(draft: TileDraft, x: Value, axis: int, choices: Choices) -> Value:
    kind = choices.of(_KINDS)
    x = summable(draft, x, kind.value, element_type(x.type).shape[axis])
    draft.add(tile.Reduce(kind, axis, x))
    return draft.visible[-1]


def meet(draft: TileDraft, choices: Choices) -> None:
    """Put a tile in place of one that has other masked elements, or combine both."""
    type_ = Tile(choices.of(draft.shapes), choices.of(draft.dtypes))
    x, y = (
        _loaded(draft, type_, mask_unevenly(draft, type_.shape, choices), choices) for _ in range(2)
    )
    draft.visible += [x, y]
    if not draft.is_shallow or choices.flag(3):
        draft.add(_met(draft, x, y, choices))
        return
    # What a loop starts with is masked otherwise than what it goes on with.
    bounds = [draft.constant(n, i32) for n in (0, choices.of((2, 1, 3, 0)), 1)]
    loop = For(bounds[0], bounds[1], bounds[2], [x])
    draft.builder.insert(loop)
    with draft.inside(loop.body):
        old = loop.body.arguments[1]
        other = y if choices.flag(3) else draft.other(old, choices)
        draft.builder.insert(Yield([draft.put(_met(draft, old, other, choices))]))
    draft.visible += loop.results


def _met(draft: TileDraft, x: Value, y: Value, choices: Choices) -> Op:
    style = choices.of((0, 1, 0, 2, 0, 3))
    if style == 0:
        return tile.Update(x, y)
    if style == 1:
        return math.Select(draft.condition(element_type(x.type), choices), x, y)
    both: Op = math.Xor(x, y) if x.type.element is bool_ else math.Maximum(x, y)
    if style == 2:
        return both
    return tile.Update(choices.of((x, y)), draft.put(both))


def multiply_itself(draft: TileDraft, choices: Choices) -> None:
    """A loop that adds to a matrix its product with one that has masked elements."""
    size = choices.of((4, 8, 2))
    dtype = f32 if f32 in draft.all_dtypes and choices.below(3) else i32
    type_ = Tile((size, size), dtype)
    # Infinities stay what they are only where nothing that is masked meets them.
    is_odd = dtype.is_float and bool(choices.below(3))
    start = _odd(draft, type_, choices) if is_odd else _bounded(draft.like(type_, choices), draft)
    masked = choices.of((_listed, mask_unevenly))  # as often as not along one axis
    mask = masked(draft, type_.shape, choices)
    # What is masked is not 0 any more.
    factor = draft.put(math.Add(_loaded(draft, type_, mask, choices), draft.constant(1, type_)))
    factor = _bounded(factor, draft)
    zero, one = draft.constant(0, i32), draft.constant(1, i32)
    loop = For(zero, draft.constant(choices.of((2, 3)), i32), one, [start])
    draft.add(loop)
    with draft.inside(loop.body):
        old = loop.body.arguments[1]
        total = old if is_odd else _bounded(old, draft)
        pairs = ((total, factor), (factor, total), (total, total))
        a, b = choices.of(pairs[:2] if is_odd else pairs)
        new = draft.put(tile.Dot(a, b, total))
        draft.builder.insert(Yield([draft.put(tile.Update(old, new))]))


def multiply_unevenly(draft: TileDraft, choices: Choices) -> None:
    """The product of a tile, one of whose numbers may be none, and one with masked elements; or of
    two such."""
    rows, depth, columns = (choices.of((4, 8, 2)) for _ in range(3))
    dtype = f32 if f32 in draft.all_dtypes and choices.below(4) else i32
    factors: list[Value] = []
    for type_ in (Tile((rows, depth), dtype), Tile((depth, columns), dtype)):
        if factors or choices.flag(4):
            mask = mask_unevenly(draft, type_.shape, choices)
            factors.append(_bounded(_loaded(draft, type_, mask, choices), draft))
        elif dtype.is_float and choices.below(4):
            factors.append(_odd(draft, type_, choices))
        else:
            factors.append(_bounded(draft.like(type_, choices), draft))
    a, b = factors
    if choices.flag():  # the other way round
        a, b = (draft.put(tile.Transpose((1, 0), x)) for x in (b, a))
    draft.add(tile.Dot(a, b))


def _bounded(x: Value, draft: TileDraft) -> Value:
    return draft.exact(x, SUMMED, SUMMED)


def _odd(draft: TileDraft, type_: Tile, choices: Choices) -> Value:
    """Small whole numbers, and one that is none."""
    count = prod(type_.shape)
    numbers = [draft.seed % 4 + 1 - n % 4 for n in range(count)]
    data = [encode(n, type_.element) for n in numbers]
    data[choices.of((0, count - 1, choices.below(count)))] = encode(
        choices.of((inf, nan, -inf)), type_.element
    )
    recipe = Array(type_.element, (count,), data=tuple(data))
    pointer = draft.argument("odd", recipe, noalias=True)
    return draft.put(tile.Load(pointer, draft.lanes(type_.shape)))


def divide_where(draft: TileDraft, choices: Choices) -> None:
    """A quotient or a shift; the operands are loaded only where the result is defined."""
    dtype = _integer(draft, choices)
    type_ = choices.of(draft.types(dtype))
    cls = choices.of((math.FloorDiv, math.Mod, math.FloorDiv, math.Shr, math.Shl))
    if cls in (math.Shr, math.Shl):
        by = draft.wrapped(draft.like(type_, choices), 2 * dtype.bits)
        limit, predicate = dtype.bits, Predicate.LT
    else:
        by = draft.wrapped(draft.like(type_, choices), MOST_TRIPS)
        limit, predicate = 0, Predicate.NE
    mask = draft.put(math.Compare(predicate, by, draft.constant(limit, type_)))
    draft.add(cls(_loaded(draft, type_, mask, choices), by))


def convert_where(draft: TileDraft, choices: Choices) -> None:
    """Unsigned integers made of floats, which are loaded only where they are in range."""
    floats = [d for d in draft.all_dtypes if d.is_float]
    targets = [d for d in draft.all_dtypes if d.is_integer and not d.is_signed]
    if not floats or not targets:
        divide_where(draft, choices)
        return
    dtype = choices.of([d for d in draft.dtypes if d.is_float] or floats)
    type_ = Tile(choices.of(draft.shapes), dtype)
    memory = draft.input(dtype, choices)
    lanes = draft.wrapped(draft.lanes(type_.shape), memory.size)
    x = draft.put(tile.Load(memory.pointer, lanes))
    one = draft.constant(1, type_)
    sides = ((Predicate.GE, one), (Predicate.LE, draft.constant(CONVERTED, type_)))
    low, high = (draft.put(math.Compare(predicate, x, y)) for predicate, y in sides)
    loaded = draft.put(tile.MaskedLoad(memory.pointer, lanes, draft.put(math.And(low, high))))
    target = type_.with_element(choices.of(targets))
    draft.add(math.Cast(draft.put(math.Sub(loaded, one)), target))


def _integer(draft: TileDraft, choices: Choices) -> DType:
    mine = [d for d in (*draft.dtypes, i32) if d.is_integer]
    return choices.of(mine)
