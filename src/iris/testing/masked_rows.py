"""Short programs of a row that is loaded under a mask: added to what may have -0.0, or less its
extreme, as in a softmax, where some elements are nan."""

from __future__ import annotations

from math import inf, nan, prod

from hypothesis import strategies as st

from iris.ir import math, tile
from iris.ir.control import For, Yield
from iris.ir.core import Value
from iris.ir.kinds import ReduceKind
from iris.ir.literal import Number, encode
from iris.ir.math import element_type
from iris.ir.types import DType, ElementType, Tile, bool_, f16, f32, i32
from iris.testing.choices import Choices
from iris.testing.elementwise import ALL
from iris.testing.tables import below
from iris.testing.tiles import TileDraft
from iris.tools.replay import Array, Program

BYTES = 96
SHAPES = ((8,), (4,), (2, 4), (16,), (4, 4))
# Small whole numbers, whose sums are exact, and others.
_ZEROS: tuple[Number, ...] = (0.0, -0.0, 1, -0.0)
_NUMBERS: tuple[Number, ...] = (1, 0, -2, nan, 2, 3, -1, -inf)
_EXPONENTS: tuple[Number, ...] = (2, 0, 1, 0)


def programs() -> st.SearchStrategy[Program]:
    """Programs for passes that run before `follow-masks`."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: made(Choices(data)))


def made(choices: Choices) -> Program:
    """A program that some bytes choose."""
    draft = TileDraft([], choices, ALL, masked=True)
    for _ in range(choices.of((1, 2))):
        choices.of((add_to_zeros, share))(draft, choices)
    return draft.finish()


def add_to_zeros(draft: TileDraft, choices: Choices) -> None:
    """Add elements that are loaded under a mask to zeros of both signs, once or in a loop; the
    others stay as they are, or not."""
    type_ = Tile(choices.of(SHAPES), choices.of((f32, f32, f16)))
    start = _zeros(draft, type_, choices)
    if choices.flag(3):
        draft.visible.append(_added(draft, start, choices))
        return
    bounds = [draft.constant(n, i32) for n in (0, choices.of((2, 1, 3)), 1)]
    loop = For(bounds[0], bounds[1], bounds[2], [start])
    draft.builder.insert(loop)
    with draft.inside(loop.body):
        found = _added(draft, loop.body.arguments[1], choices)
        if choices.below(3):  # more is carried on than was added
            found = draft.put(math.Neg(found)) if choices.flag() else _either(draft, found, choices)
        draft.builder.insert(Yield([found]))
    draft.add_built(loop)


def _zeros(draft: TileDraft, type_: Tile, choices: Choices) -> Value:
    """Zeros; at times those that an op makes of zeros."""
    if not choices.flag(3):
        return _plain_zeros(draft, type_, choices)
    shape, dtype = type_.shape, type_.element
    style = choices.below(6)
    if style < 3 and len(shape) > 1:
        rows, columns = shape
        if style == 2:
            turned = _plain_zeros(draft, Tile((columns, rows), dtype), choices)
            return draft.put(tile.Transpose((1, 0), turned))
        x = _plain_zeros(draft, Tile((rows, 4), dtype), choices)
        y = _elements(draft, Tile((4, columns), dtype), _ZEROS, None, choices)
        start = _plain_zeros(draft, type_, choices) if style else None
        return draft.put(tile.Dot(x, y, start))
    if style < 4:
        one = _plain_zeros(draft, Tile((1,), dtype), choices)
        wide = draft.put(tile.Broadcast(one, Tile((prod(shape),), dtype)))
        return draft.put(tile.Reshape(wide, type_)) if len(shape) > 1 else wide
    zeros = _plain_zeros(draft, type_, choices)
    if style == 4:
        return draft.put(choices.of(_OF_ZEROS)(zeros))
    return draft.put(choices.of(_OF_TWO)(zeros, _elements(draft, type_, _ZEROS, None, choices)))


_OF_ZEROS = (math.Neg, math.Abs, math.Floor, math.Sqrt)
_OF_TWO = (math.Mul, math.Sub, math.Add, math.Minimum, math.MaxNum)


def _plain_zeros(draft: TileDraft, type_: Tile, choices: Choices) -> Value:
    style = choices.of((0, 1, 2, 3, 4, 5, 0))
    if style < 2:
        return draft.constant((0.0, -0.0)[style], type_)
    if style < 4:
        return _either(draft, draft.constant(choices.of((0.0, -0.0)), type_), choices)
    zeros = _elements(draft, type_, _ZEROS, None, choices)
    return draft.put(math.Add(zeros, draft.constant(-0.0, type_))) if style == 5 else zeros


def _either(draft: TileDraft, x: Value, choices: Choices) -> Value:
    """It, or a zero, as elements say."""
    type_ = element_type(x.type)
    other = draft.constant(choices.of((-0.0, 0.0)), type_)
    condition = _condition(draft, type_, choices)
    return draft.put(math.Select(condition, *choices.of(((x, other), (other, x)))))


def _added(draft: TileDraft, old: Value, choices: Choices) -> Value:
    type_ = element_type(old.type)
    x = _elements(draft, type_, _ZEROS, _mask(draft, type_, choices), choices)
    new = draft.put(math.Add(*choices.of(((old, x), (x, old)))))
    return draft.put(tile.Update(old, new)) if choices.below(3) else new


def share(draft: TileDraft, choices: Choices) -> None:
    """What a row's elements have of its sum, less its extreme: of all of them, or of some.  The
    extreme is shown at times, as attention in parts does."""
    type_ = Tile((choices.of((4, 8, 16)),), choices.of((f32, f32, f16)))
    mask = _mask(draft, type_, choices)
    x = _elements(draft, type_, _NUMBERS, mask if choices.flag() else None, choices)
    kind = choices.of((ReduceKind.MAXIMUM, ReduceKind.MAXIMUM, ReduceKind.MINIMUM))
    counted = x
    if choices.flag():
        least = draft.constant(inf if kind is ReduceKind.MINIMUM else -inf, type_)
        counted = draft.put(math.Select(mask, x, least))
    extreme = draft.put(tile.Reduce(kind, 0, counted))
    if choices.flag(4):
        draft.visible.append(extreme)
    pair = choices.of((x, counted)), draft.put(tile.Broadcast(extreme, type_))
    difference = draft.put(math.Sub(*pair))
    terms = _terms(draft, difference, choices)
    style = choices.below(4)
    if style:  # only some are added up
        zero = draft.constant(choices.of((0.0, -0.0, 1.0)), type_)
        condition = mask if style < 3 else _condition(draft, type_, choices)
        both = (zero, terms) if style == 2 else (terms, zero)
        terms = draft.put(math.Select(condition, *both))
    summed = choices.of((ReduceKind.SUM, ReduceKind.SUM, ReduceKind.PROD, ReduceKind.MAXNUM))
    total = draft.put(tile.Reduce(summed, 0, terms))
    if choices.flag():
        draft.visible.append(total)
        return
    logarithm = choices.flag(3)
    total = draft.put(tile.Broadcast(draft.put(math.Log(total)) if logarithm else total, type_))
    cls = math.Sub if logarithm else math.Div
    draft.visible.append(draft.put(cls(difference if logarithm else terms, total)))


def _terms(draft: TileDraft, x: Value, choices: Choices) -> Value:
    """A function of differences; some are not nan where their argument is nan."""
    type_ = element_type(x.type)
    style = choices.below(8)
    if style < 4:
        unary = (math.Exp, math.Exp2, math.Abs, math.Tanh)
        return draft.put(unary[style](x))
    if style < 6:
        return draft.put(math.Pow(x, _elements(draft, type_, _EXPONENTS, None, choices)))
    other = _elements(draft, type_, _EXPONENTS, None, choices)
    binary = math.Mul if style == 6 else choices.of((math.MaxNum, math.Maximum, math.Pow))
    return draft.put(binary(other, x))


# The parts of such a program.


def _condition(draft: TileDraft, type_: ElementType, choices: Choices) -> Value:
    """A condition of elements, or a mask of some from the start."""
    if choices.flag():
        return _mask(draft, type_, choices)
    some = type_.with_element(bool_)
    return _elements(draft, some, (1, 0, 1), None, choices)


def _mask(draft: TileDraft, type_: ElementType, choices: Choices) -> Value:
    size = prod(type_.shape)
    count = choices.of((size - 1, size // 2, 1, size))
    return below(draft, draft.lanes(type_.shape), count, choices)


def _elements(
    draft: TileDraft,
    type_: ElementType,
    numbers: tuple[Number, ...],
    mask: Value | None,
    choices: Choices,
) -> Value:
    """A tile of some numbers, where a mask says so."""
    dtype, shape = type_.element, type_.shape
    pointer = draft.argument("row", _recipe(dtype, prod(shape), numbers, choices), noalias=True)
    if mask is None:
        return draft.put(tile.Load(pointer, draft.lanes(shape)))
    return draft.put(tile.MaskedLoad(pointer, draft.lanes(shape), mask))


def _recipe(dtype: DType, count: int, numbers: tuple[Number, ...], choices: Choices) -> Array:
    data = tuple([encode(choices.of(numbers), dtype) for _ in range(count)])
    return Array(dtype, (count,), data=data)
