"""Loops over the blocks of rows, where only a band of columns counts, as in causal attention and
sliding windows: those up to a diagonal, from one on, or between two."""

from __future__ import annotations

from math import inf, nan

from hypothesis import strategies as st

from iris.ir import math, tile
from iris.ir.control import For, If, Yield
from iris.ir.core import Value
from iris.ir.kinds import ReduceKind
from iris.ir.literal import Number
from iris.ir.math import Predicate, element_type
from iris.ir.types import DType, ElementType, Tile, bool_, f32, i32, i64
from iris.testing.access import read, write
from iris.testing.choices import Choices
from iris.testing.elementwise import ALL, SUMMED, summable
from iris.testing.idioms import (
    Factor,
    multiplied,
    normalised,
    over_blocks,
    reduced,
    some_matrix,
)
from iris.testing.places import Place
from iris.testing.tables import around, own_matrix, place, size, table
from iris.testing.tiles import TileDraft
from iris.tools.replay import Program

BYTES = 120
FAR = 2**31 - 4  # to which no number can be added for long

# What is carried over the blocks, and whether its neutral number is the least, the greatest, or 0.
_COMBINED: tuple[tuple[ReduceKind, type[math.Binary], int], ...] = (
    (ReduceKind.MAXIMUM, math.Maximum, -1),
    (ReduceKind.SUM, math.Add, 0),
    (ReduceKind.MAXNUM, math.MaxNum, -1),
    (ReduceKind.MINIMUM, math.Minimum, 1),
    (ReduceKind.SUM, math.Add, 0),
)


def go_over_band(draft: TileDraft, choices: Choices, block_row: Value | None = None) -> For:
    """Combines the columns of the program's rows that count, or takes the share of each as
    `softmax` does.  A block of rows may begin in another row than the program's."""
    cut = table(draft, choices)
    floats = [d for d in draft.dtypes if d.is_float] or [d for d in draft.all_dtypes if d.is_float]
    numbers = [d for d in draft.dtypes if d is not bool_] or [i32]
    # A running maximum is of floats.
    dtype = choices.of(floats if floats and choices.below(5) else numbers)
    memory = some_matrix(draft, dtype, choices)
    block = Tile(cut.shape, dtype)
    kind, combine, side = choices.of(_COMBINED)
    is_softmax = dtype.is_float and choices.flag(3)
    # Whether the first iteration changes what is carried at first, whatever comes in it.
    is_first = dtype.is_float and not is_softmax and choices.flag(3)
    if is_softmax:
        kind, combine, side = choices.of(_COMBINED[:3:2])
    elif is_first:
        kind, combine, side = choices.of(_COMBINED[1:3])
    neutral = _limit(dtype, side)
    carried = reduced(block) if is_softmax or choices.below(3) else block
    filler = draft.constant(neutral, block)
    if dtype.is_float and choices.flag(5) and (side or draft.rounding):
        filler = draft.constant(choices.of((0.0, -0.0, -inf, inf)), block)
    start = draft.constant(neutral, carried)
    if is_first:
        start = draft.constant(nan if side else -0.0, carried)
    elif choices.flag(8):
        start = draft.like(carried, choices)
        start = summable(draft, start, kind.value, 1)
    elif choices.flag(5):
        start = draft.constant(-0.0 if dtype.is_float and side == 0 else 1, carried)
    elif dtype.is_float and choices.flag(4):  # what decides may choose either
        start = _either(draft, -0.0, 0.0, carried, choices)
    initial = [start]
    if is_softmax:
        initial.append(draft.constant(choices.of((0.0, 0.0, -0.0, 1.0)), carried))
    first = choices.of((0, 0, 1, cut.columns))
    row = draft.put(math.Mul(draft.number, draft.constant(cut.rows, i32)))
    if block_row is not None:
        row = block_row if choices.flag() else draft.put(math.Add(row, block_row))
    is_plain = choices.below(4) > 0  # so that its bounds can be tightened
    with over_blocks(
        draft, first, cut.width, cut.columns, initial, choices, is_plain=is_plain
    ) as made:
        total, *shares = made.carried
        found = place(draft, memory, made.start, choices)
        is_outside = choices.flag(3)
        counts = band(
            draft,
            *(row, made.start, cut.shape, choices),
            is_outside=is_outside,
            is_behind=is_first and choices.flag(),
        )
        # What is made small is that before it is chosen: so 0 is seen to be 0.
        if draft.masked and choices.flag() and not is_outside:
            both = counts if found.mask is None else draft.put(math.And(counts, found.mask))
            x = draft.put(tile.MaskedLoad(memory.pointer, found.offset, both))
            draft.learn(x, memory)
            x = summable(draft, x, kind.value, cut.columns)
        else:
            x = read(draft, found, choices, choices.of((0, neutral)))
            if choices.flag(3):
                draft.step()
                x = draft.like(block, choices)
            x = summable(draft, x, kind.value, cut.columns)
            if is_first and choices.flag():  # it changes that for good
                x = _never_again(draft, x, side)
            x = draft.put(math.Select(counts, *((filler, x) if is_outside else (x, filler))))
        draft.visible.append(x)
        if choices.flag(8):  # seen otherwise than in what is carried
            target = found._replace(memory=own_matrix(draft, dtype, choices))
            if choices.flag():
                write(draft, target, x)
            else:
                _write_if(draft, draft.like(bool_, choices), target, x)
        following = x
        if carried is not block:
            following = draft.put(tile.Reduce(kind, len(block.shape) - 1, x))
        following = draft.put(combine(*choices.of(((total, following), (following, total)))))
        if shares:
            shares[0] = _rescaled(draft, x, total, following, shares[0], choices)
        kept = [
            draft.put(tile.Update(old, new)) if draft.masked and choices.flag() else new
            for old, new in zip(made.carried, [following, *shares], strict=True)
        ]
        if choices.flag(5):  # what is carried on is more than what was added up
            kept[0] = draft.put(math.Neg(kept[0]))
        made.following += kept
    return made.loop


def go_over_bands(draft: TileDraft, choices: Choices) -> For:
    """A loop over blocks of rows, which may be far away, with a band in each."""
    rows = choices.of((1, 8, 16, 2))
    first = choices.of((FAR - 2 * rows, 0, FAR - rows - 4, -FAR, rows))
    start = draft.parameter(first) if choices.flag(3) else draft.constant(first, i32)
    end = draft.parameter(min(first + rows * choices.of((2, 1, 2, 0)), i32.high))
    outer = For(start, end, draft.constant(rows, i32), [])
    draft.builder.insert(outer)
    with draft.inside(outer.body):
        for result in go_over_band(draft, choices, outer.body.arguments[0]).results:
            draft.store(result)
        draft.builder.insert(Yield([]))
    return outer


def programs() -> st.SearchStrategy[Program]:
    """Short programs of such loops, for passes that run before `follow-masks`."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: made(Choices(data)))


def made(choices: Choices) -> Program:
    """A program that some bytes choose."""
    draft = TileDraft([], choices, ALL, masked=True, rounding=choices.flag())
    loops = (go_over_band, go_over_band, attend, go_over_band, go_over_bands)
    for _ in range(choices.of((1, 2))):
        draft.add_built(choices.of(loops)(draft, choices))
    return draft.finish()


def _either(
    draft: TileDraft, one: Number, other: Number, type_: ElementType, choices: Choices
) -> Value:
    """One number or another in each element, as a condition says."""
    condition = draft.like(type_.with_element(bool_), choices)
    numbers = [draft.constant(n, type_) for n in choices.of(((one, other), (other, one)))]
    return draft.put(math.Select(condition, *numbers))


def _never_again(draft: TileDraft, x: Value, side: int) -> Value:
    """What has no -0.0, or no nan."""
    if not side:
        return draft.put(math.Abs(x))
    return draft.put(math.MaxNum(x, draft.constant(-1, element_type(x.type))))


def _write_if(draft: TileDraft, condition: Value, found: Place, x: Value) -> None:
    branch = draft.builder.insert(If(condition))
    for region in branch.regions:
        with draft.inside(region):
            if region is branch.then:
                write(draft, found, x)
            draft.builder.insert(Yield([]))


def _rescaled(
    draft: TileDraft, x: Value, old: Value, new: Value, share: Value, choices: Choices
) -> Value:
    """The sum of exponentials less a maximum that has grown."""
    type_ = element_type(new.type)
    least = draft.constant(-inf, type_)
    finite = new
    if choices.below(3):  # nothing less nothing is nan
        nothing = draft.put(math.Compare(Predicate.EQ, new, least))
        finite = draft.put(math.Select(nothing, draft.constant(0.0, type_), new))
    factor = draft.put(math.Exp(draft.put(math.Sub(old, finite))))
    block = element_type(x.type)
    spread = finite
    if type_.shape:
        spread = draft.put(tile.ExpandDims(len(type_.shape), finite))
    spread = draft.put(tile.Broadcast(spread, Tile(block.shape, block.element)))
    terms = draft.put(math.Exp(draft.put(math.Sub(x, spread))))
    if not draft.rounding:  # none is over 1
        terms = draft.put(math.Round(terms))
    total = draft.put(tile.Reduce(ReduceKind.SUM, len(block.shape) - 1, terms))
    return draft.put(math.Add(draft.put(math.Mul(share, factor)), total))


def _limit(dtype: DType, side: int) -> Number:
    """What a combination leaves out: 0, or the least or greatest number of a dtype."""
    if side == 0:
        return 0
    if dtype.is_float:
        return side * inf
    return dtype.high if side > 0 else dtype.low


def attend(draft: TileDraft, choices: Choices) -> For:
    """A loop over the blocks of two matrices: the product with one, maybe less the extremes of its
    rows, is the left operand of that with the other.  At times only a band of them counts."""
    floats = [d for d in draft.dtypes if d.is_float and d.bits < 64] or [f32]
    dtype = choices.of(floats)
    rows, columns, depth = (choices.of((16, 8, 32)) for _ in range(3))
    count = around(columns, choices)
    queries = Factor(draft, dtype, rows * draft.programs, depth, choices)
    keys = Factor(draft, dtype, depth, count, choices)
    values = Factor(draft, dtype, count, depth, choices)
    row = draft.put(math.Mul(draft.number, draft.constant(rows, i32)))
    zero = draft.constant(0, i32)
    x = queries.load(row, zero, (rows, depth), choices, None, (True, True))
    start = draft.constant(0, Tile((rows, depth), f32))
    with over_blocks(draft, 0, count, columns, [start], choices) as made:
        (total,) = made.carried
        y = keys.load(zero, made.start, (depth, columns), choices, None, (True, False))
        scores = multiplied(draft, x, y, None, choices)
        if choices.flag():
            scores = normalised(draft, scores, choices)
        if choices.flag(3):
            counts = band(draft, row, made.start, (rows, columns), choices)
            nothing = choices.of((0, 0, -inf))
            filler = draft.constant(nothing, element_type(scores.type))
            scores = draft.put(math.Select(counts, scores, filler))
        draft.visible.append(scores)
        if choices.flag(4):
            draft.step()
        weights = draft.exact(scores, SUMMED, SUMMED)
        if dtype is not f32:
            weights = draft.put(math.Cast(weights, Tile((rows, columns), dtype)))
        z = values.load(made.start, zero, (columns, depth), choices, None, (False, True))
        made.following.append(multiplied(draft, weights, z, total, choices))
    return made.loop


def band(
    draft: TileDraft,
    row: Value,
    column: Value,
    shape: tuple[int, ...],
    choices: Choices,
    *,
    is_outside: bool = False,
    is_behind: bool = False,
) -> Value:
    """Which elements of a block count, that starts in some row and column, or which do not: by the
    distance from a diagonal, which may be steep, or far away; `is_behind` if no column comes before
    most rows' diagonals."""
    count = shape[-1]
    past = choices.of((0, count, 2 * count, count - 1, 0, count + 1, 2 * count - 2, FAR))
    if past:  # as behind what has been kept of earlier columns
        row = draft.put(math.Add(row, size(draft, past, choices)))
    is_turned = len(shape) > 1 and choices.flag(5)  # made with the axes in the other order
    if is_turned:
        shape = shape[::-1]
    across = _line(draft, column, 0 if is_turned else len(shape) - 1, shape, choices)
    down = draft.spread(row, shape)
    if len(shape) > 1:
        down = _line(draft, row, 1 if is_turned else 0, shape, choices)
    steep = choices.of((1, 1, 1, 2, count))
    down = _times(draft, down, steep)
    if choices.flag(5):
        across = _times(draft, across, choices.of((2, 3, -1)))
    if choices.flag(6):
        across, down = (_wide(draft, x) for x in (across, down))
    # A row may have no column, and a band end anywhere in a block, or with it.
    width = choices.of((count // 2, 0, count, 1, count - 1, -1, count + 1, count - 2, -4 * count))
    first = choices.of((0, 0, 0, 1, -2 * count))
    upper = choices.of((Predicate.LE, Predicate.LT))
    lower = choices.of((Predicate.GT, Predicate.GE))
    limits = [(upper, first), (lower, -width)]
    style = choices.below(6)
    if is_behind:
        limits = [(upper, -4 * count)]
    elif style == 4:
        limits = [(choices.of((Predicate.EQ, Predicate.NE)), width)]
    elif style > 1:
        limits = limits[style % 2 :][:1]
    found = []
    for predicate, by in limits:
        named = predicate.negated if is_outside else predicate
        found.append(_compared(draft, named, across, down, by, choices))
    if len(found) > 1:
        both = math.Or if is_outside is not choices.flag(6) else math.And
        found = [draft.put(both(*found[:: choices.of((1, -1))]))]
    return draft.put(tile.Transpose((1, 0), found[0])) if is_turned else found[0]


def _compared(
    draft: TileDraft, predicate: Predicate, across: Value, down: Value, by: int, choices: Choices
) -> Value:
    """Compare columns with rows and a number more: said in one of some ways."""
    shape, element = element_type(down.type).shape, element_type(down.type).element
    if choices.flag(7):
        by = choices.of((FAR, -FAR))
    far = size(draft, by, choices) if abs(by) < FAR else draft.parameter(by)
    if element is not i32:
        far = draft.put(math.Cast(far, element))
    far = draft.spread(far, shape)
    style = choices.below(4)
    if style == 3:
        across = draft.put(math.Sub(across, far))
    elif by or style:
        down = draft.put(math.Add(down, far))
    if style == 2:
        return draft.put(math.Compare(predicate.swapped, down, across))
    if style == 1 and choices.flag():
        return draft.put(math.Not(draft.put(math.Compare(predicate.negated, across, down))))
    return draft.put(math.Compare(predicate, across, down))


def _line(
    draft: TileDraft, start: Value, axis: int, shape: tuple[int, ...], choices: Choices
) -> Value:
    """The numbers along an axis from one on, in all of a block: seldom they count down."""
    numbers = draft.lanes(shape[axis : axis + 1])
    if choices.flag(6):
        last = draft.constant(shape[axis] - 1, element_type(numbers.type))
        numbers = draft.put(math.Sub(last, numbers))
    numbers = draft.put(math.Add(draft.spread(start, shape[axis : axis + 1]), numbers))
    for other in range(len(shape)):
        if other != axis:
            numbers = draft.put(tile.ExpandDims(other, numbers))
    if element_type(numbers.type).shape != shape:
        numbers = draft.put(tile.Broadcast(numbers, Tile(shape, i32)))
    return numbers


def _times(draft: TileDraft, x: Value, factor: int) -> Value:
    if factor == 1:
        return x
    return draft.put(math.Mul(x, draft.constant(factor, element_type(x.type))))


def _wide(draft: TileDraft, x: Value) -> Value:
    return draft.put(math.Cast(x, element_type(x.type).with_element(i64)))
