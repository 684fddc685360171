"""How each op of Graph IR is made in a random program: one rule per op, none of which can go
wrong, as in `elementwise.py`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from iris.ir import graph, math
from iris.ir.control import Yield
from iris.ir.core import Op, Value
from iris.ir.graph import ScatterKind
from iris.ir.kinds import COLLECTED_BITS, ReduceKind, ScanKind
from iris.ir.math import Predicate, element_type
from iris.ir.types import DType, ElementType, Tensor, bool_, i32, i64
from iris.testing.choices import Choices
from iris.testing.draft import fitting, special_number
from iris.testing.elementwise import ALL, NUMBERS, SUMMED, SUMS_AT_MOST, summable
from iris.testing.graph_views import (
    backwards,
    between_views,
    chained,
    displaced,
    dtype_of,
    framed,
    order_of_matrices,
    pairwise,
    parts_together,
    reordered,
    shape_of,
    spread,
    transposed_from,
    viewed,
)
from iris.testing.graphs import HALVES, MOST_AXES, GraphDraft, make_graph
from iris.testing.softmaxes import softmax_like
from iris.testing.variances import variance_like

PLACES = (i32, i64)
LONG = (5000, 9001, 4097, 20000)
FINER = 4  # times the numbers from -2 to 2 are those up to SUMMED
MANY = 100  # factors of 2, more of which are too great for f32


# Tensors out of nothing, and the same elements elsewhere.


@make_graph(graph.Iota)
def iota(cls: type[graph.Iota], draft: GraphDraft, choices: Choices) -> None:
    shapes = [shape for shape in draft.shapes if shape]
    shape = choices.of([*shapes, (draft.sizes[0],)])
    dtypes = [d for d in (i32, *draft.dtypes) if d is not bool_]
    draft.add(graph.Iota(choices.below(len(shape)), Tensor(shape, choices.of(dtypes))))


@make_graph(graph.Broadcast)
def broadcast(cls: type[graph.Broadcast], draft: GraphDraft, choices: Choices) -> None:
    """To the shape of something else, if there is one that goes with it, or any other."""
    if choices.flag(5):
        differences(draft, choices)
        return
    x = draft.find(lambda t: 1 in t.shape, choices)
    if x is None or choices.flag():
        x = with_axis(draft, choices)
    shape = shape_of(x)
    shapes = [
        to
        for to in draft.shapes
        if len(to) == len(shape) and all(n in (1, m) for n, m in zip(shape, to, strict=True))
    ]
    if not shapes or choices.flag():
        larger = [choices.of(draft.sizes) if n == 1 else n for n in shape]
        shapes = [tuple(larger) if prod(larger) <= draft.most else shape]
    draft.add(graph.Broadcast(x, Tensor(choices.of(shapes), dtype_of(x))))


def differences(draft: GraphDraft, choices: Choices) -> None:
    """`x[:, None] - x[None, :]`, mostly reduced along an axis; then `x` minus that, at times."""
    x, pairs = pairwise(draft, choices)
    if choices.flag(4) or 0 in shape_of(pairs):
        draft.visible.append(pairs)
        return
    kind = choices.of(_TRUTH if dtype_of(x) is bool_ else _OF_NUMBERS)
    pairs = combined(draft, pairs, kind.value, shape_of(pairs)[0])
    draft.add(graph.Reduce(kind, (choices.below(2),), pairs))
    result = draft.visible[-1]
    if result.type is x.type and dtype_of(x) is not bool_ and choices.flag():
        draft.add(math.Sub(x, result))


def with_axis(draft: GraphDraft, choices: Choices) -> Value:
    """Something with another axis, of size 1."""
    x = draft.some(ALL, choices, lambda t: len(t.shape) < MOST_AXES)
    shape = list(shape_of(x))
    shape.insert(choices.below(len(shape) + 1), 1)
    draft.add(graph.Reshape(x, Tensor(tuple(shape), dtype_of(x))))
    return draft.visible[-1]


@make_graph(graph.Reshape)
def reshape(cls: type[graph.Reshape], draft: GraphDraft, choices: Choices) -> None:
    style = choices.below(9)
    if style == 8:
        two_views(draft, choices)
        return
    if style > 5:
        rows_of_flat(draft, choices)
        return
    if style > 3:
        views(draft, choices)
        return
    x = draft.some(ALL, choices)
    draft.add(graph.Reshape(x, Tensor(choices.of(_reshapes(draft, shape_of(x))), dtype_of(x))))


def views(draft: GraphDraft, choices: Choices) -> None:
    """Views of views; something between two views; or something made of its own elements in other
    places.  Half the time it is reduced, at times with its axes in another order."""
    x = small(draft, choices)
    style = choices.below(5)
    if style == 4:
        x = between_views(draft, choices)
    elif style == 3:
        made = displaced(draft, x, choices)
        x = draft.put((math.Xor if dtype_of(x) is bool_ else math.Add)(x, made))
    else:
        x = displaced(draft, x, choices) if style == 2 else chained(draft, x, choices)
    draft.visible.append(x)
    if choices.flag() and shape_of(x):
        reduce_some(draft, reordered(draft, x, choices) if choices.flag() else x, choices)


def two_views(draft: GraphDraft, choices: Choices) -> None:
    """Two views together, mostly of one kind, of tensors that differ in shape or order."""
    type_ = element_type(small(draft, choices).type)
    style, is_bool = choices.below(4), type_.element is bool_
    styles = style, choices.of((style, style, 3, choices.below(4)))
    x, y = (viewed(draft, type_, style, choices) for style in styles)
    draft.add((math.Xor if is_bool else choices.of((math.Add, math.Sub, math.Mul)))(x, y))


def small(draft: GraphDraft, choices: Choices, rank: int = 1) -> Value:
    """Something that has elements, not too many of them, and mostly some axes."""

    def fits(type_: ElementType) -> bool:
        return len(type_.shape) >= rank and 1 < prod(type_.shape) <= draft.most

    x = draft.find(fits, choices)
    if x is None or choices.flag(3):
        shapes = [shape for shape in choices.of((_UNLIKE, _ALIKE)) if len(shape) >= rank]
        x = draft.leaf(Tensor(choices.of(shapes), choices.of(draft.dtypes)))
    return x


_UNLIKE = ((12,), (6, 8), (2, 3, 4), (30,), (4, 6), (4, 2, 3))
# Where axes have equal sizes, or one element, only values show which is which.
_ALIKE = ((4, 4), (3, 3, 3), (1, 4, 4), (2, 2, 2, 2), (4, 1, 4), (6, 6), (3, 3, 1))


def reduce_some(draft: GraphDraft, x: Value, choices: Choices) -> None:
    """Some axes of it reduced, or all."""
    kind = choices.of(_TRUTH if dtype_of(x) is bool_ else _OF_NUMBERS)
    axes = some_axes(shape_of(x), kind, choices)
    count = prod([shape_of(x)[axis] for axis in axes])
    if not count and kind not in _OF_NOTHING:
        kind = ReduceKind.SUM
    draft.add(graph.Reduce(kind, axes, combined(draft, x, kind.value, count)))


def rows_of_flat(draft: GraphDraft, choices: Choices) -> None:
    """`x.reshape(-1)[start:].reshape(rows, row)`, or the same of `x.T`: a row is as long as a part
    of an axis, but need not start where a part does.  Half the time the rows are reduced."""
    x = draft.find(lambda t: t.element is not bool_ and prod(t.shape) > 8, choices)
    if x is None:
        matrix = fitting((choices.of(draft.sizes[:3]), 8), draft.most)
        x = draft.leaf(Tensor(matrix, _number(draft, choices)))
    dtype, shape = dtype_of(x), shape_of(x)
    transposed = choices.flag()
    axis = shape[0 if transposed else -1]
    row = choices.of([n for n in (2, 4, 3, 5, 8) if axis % n == 0 and n < axis] or [2])
    start = choices.of((1, 0, 3, 2))
    rows = (prod(shape) - start) // row
    if transposed:
        x = draft.put(graph.Transpose((*range(1, len(shape)), 0), x))
    flat = draft.put(graph.Reshape(x, Tensor((prod(shape),), dtype)))
    part = draft.put(graph.Slice((start,), (1,), flat, Tensor((rows * row,), dtype)))
    draft.add(graph.Reshape(part, Tensor((rows, row), dtype)))
    if choices.flag():
        kind = choices.of(_OF_NUMBERS)
        result = combined(draft, draft.visible[-1], kind.value, row)
        draft.add(graph.Reduce(kind, (1,), result))


def _reshapes(draft: GraphDraft, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Shapes of as many elements: the same in one row, or with axes of size 1 more or less, or
    with two axes in one or one in two; or one that there is."""
    count, axes = prod(shape), range(len(shape))
    found = [(count,), tuple([n for n in shape if n != 1])]
    found += [to for to in draft.shapes if prod(to) == count]
    found += [(*shape[:i], shape[i] * shape[i + 1], *shape[i + 2 :]) for i in axes[:-1]]
    for i in axes:
        for part in (2, 3, 5, 7):
            if len(shape) < MOST_AXES and shape[i] % part == 0:
                found += [(*shape[:i], part, shape[i] // part, *shape[i + 1 :])]
    if len(shape) < MOST_AXES:
        found += [(*shape[:i], 1, *shape[i:]) for i in range(len(shape) + 1)]
    return [to for to in dict.fromkeys(found) if prod(to) == count] or [shape]


@make_graph(graph.Transpose)
def transpose(cls: type[graph.Transpose], draft: GraphDraft, choices: Choices) -> None:
    least, cube = choices.of((2, 3, 3, MOST_AXES)), choices.flag()  # a cube does not show it
    x = draft.find(
        lambda t: len(t.shape) >= least and (len(set(t.shape)) == 1 or not cube), choices
    )
    if x is None:
        sizes = draft.sizes[: 1 if cube else 2]
        shape = fitting([choices.of(sizes) for _ in range(least)], draft.most)
        x = draft.leaf(Tensor(shape, choices.of(draft.dtypes)))
    same = tuple(range(len(shape_of(x))))
    of_matrices = (*same[:-2], same[-1], same[-2])
    any_order = tuple(sorted(same, key=lambda axis: choices.below(256)))
    draft.add(graph.Transpose(choices.of([of_matrices, *[any_order] * 4, same[::-1]]), x))


@make_graph(graph.Slice)
def cut(cls: type[graph.Slice], draft: GraphDraft, choices: Choices) -> None:
    """All of most axes, or some of each; at times a part of the part."""
    x = draft.some_shaped(ALL, choices)
    for _ in range(choices.of((1, 1, 2))):
        shape = shape_of(x)
        only = choices.below(len(shape))
        many = choices.flag(3)
        parts = [
            _part(n, choices) if many or axis == only else (0, 1, n) for axis, n in enumerate(shape)
        ]
        starts, steps, sizes = (tuple(part) for part in zip(*parts, strict=True))
        draft.add(graph.Slice(starts, steps, x, Tensor(sizes, dtype_of(x))))
        x = draft.visible[-1]


def _part(size: int, choices: Choices) -> tuple[int, int, int]:
    """The start, the step and the size of a part of an axis."""
    if not size:
        return 0, 1, 0
    step, left_out = choices.of((1, -1, 2, 3, -2)), choices.of((0, 1, 0, 2)) % size
    start = left_out if step > 0 else size - 1 - left_out
    most = (size - 1 - left_out) // abs(step) + 1
    return start, step, max(most - choices.of((0, 0, 1, 0, 0, 2, 0, most)), 0)


@make_graph(graph.Pad)
def pad(cls: type[graph.Pad], draft: GraphDraft, choices: Choices) -> None:
    x = draft.some_shaped(ALL, choices)
    shape, dtype = shape_of(x), dtype_of(x)
    low, high = ([choices.of((0, 1, 2, 0)) for _ in shape] for _ in range(2))
    to = [a + n + b for a, n, b in zip(low, shape, high, strict=True)]
    if prod(to) > draft.most:
        low, to = [0 for _ in shape], list(shape)
    value = draft.constant(choices.of((0, 1)), Tensor((), dtype))
    if choices.flag():
        value = draft.like(Tensor((), dtype), choices)
    draft.add(graph.Pad(tuple(low), x, value, Tensor(tuple(to), dtype)))
    if choices.flag(3):  # a slice of the padded tensor, of the size that it had: it is shifted
        starts = tuple([choices.below(m - n + 1) for n, m in zip(shape, to, strict=True)])
        padded = draft.visible[-1]
        draft.add(graph.Slice(starts, (1,) * len(shape), padded, Tensor(shape, dtype)))


@make_graph(graph.Concat)
def concat(cls: type[graph.Concat], draft: GraphDraft, choices: Choices) -> None:
    if choices.flag(3):
        draft.visible.append(parts_together(draft, small(draft, choices, 2), choices))
        return
    first = draft.some_shaped(ALL, choices)
    shape = shape_of(first)
    axis = choices.below(len(shape))
    values, total = [first], prod(shape)

    def fits(type_: ElementType) -> bool:
        return (
            type_.element is dtype_of(first)
            and len(type_.shape) == len(shape)
            and all(
                n == m for i, (n, m) in enumerate(zip(type_.shape, shape, strict=True)) if i != axis
            )
        )

    for _ in range(choices.of((1, 2, 0, 1))):
        other = draft.find(fits, choices, besides=values[-1])
        if other is None:
            size = choices.of([*draft.sizes, 0])
            to = (*shape[:axis], size, *shape[axis + 1 :])
            other = draft.leaf(Tensor(to if prod(to) <= draft.most else shape, dtype_of(first)))
        total += prod(shape_of(other))
        if total <= draft.most:
            values.append(other)
    draft.add(graph.Concat(axis, values))


# What combines elements.


@make_graph(graph.Reduce)
def reduce(cls: type[graph.Reduce], draft: GraphDraft, choices: Choices) -> None:
    """Reduce some axes; at times reduce the result again, or subtract it from the operand."""
    if choices.flag(6):
        reduce_repeated(draft, choices)
        return
    x = some_row(draft, ALL, choices)
    if draft.rounding and choices.flag(3) and dtype_of(x).is_float and 0 not in shape_of(x):
        if choices.flag():
            softmax_like(draft, x, (some_axis(shape_of(x), choices),), choices)
        else:
            axes = some_axes(shape_of(x), ReduceKind.SUM, choices)
            variance_like(draft, x, axes, choices)
        return
    if choices.flag(8):
        type_ = element_type(x.type)
        x = draft.constant(special_number(type_.element, choices), type_)
    kind = choices.of(_TRUTH if dtype_of(x) is bool_ else _OF_NUMBERS)
    again = 0 if kind in _PLACES else choices.of((0, 1, 0, 2))
    axes = some_axes(shape_of(x), kind, choices)
    count = prod(shape_of(x) if again else [shape_of(x)[axis] for axis in axes])
    if not count and kind not in _OF_NOTHING:
        kind = ReduceKind.SUM
    if kind is ReduceKind.SUM and count and dtype_of(x).is_float and choices.flag():
        x = cancelling(draft, x, axes)
    x = combined(draft, x, kind.value, count)
    reduced = graph.Reduce(kind, axes, x)
    if choices.flag(6):
        keep(draft, reduced, choices)
        return
    draft.add(reduced)
    for _ in range(again):
        result = draft.visible[-1]
        if shape_of(result):
            axes = some_axes(shape_of(result), kind, choices)
            draft.add(graph.Reduce(kind, axes, result))
    if not again and dtype_of(x) in NUMBERS and choices.flag():
        subtract_result(draft, x, axes, draft.visible[-1], choices)


def reduce_repeated(draft: GraphDraft, choices: Choices) -> None:
    """Reduce what repeats along another axis, along that one and maybe others."""
    times = choices.of((2, 3, 5, 1))

    def fits(type_: ElementType) -> bool:
        return len(type_.shape) < MOST_AXES and 0 < prod(type_.shape) * times <= draft.most

    x = draft.some(ALL, choices, lambda t: fits(t) or not t.shape)
    shape = shape_of(x)
    at = choices.below(len(shape) + 1)
    # Of sums and products it matters how often an element is there.
    kinds = (ReduceKind.PROD, ReduceKind.SUM, ReduceKind.PROD, *_OF_NUMBERS)
    kind = choices.of(_TRUTH if dtype_of(x) is bool_ else kinds)
    axes = {at, choices.of([at, at, *range(len(shape) + 1)])}
    axes = {at} if kind in _PLACES else axes
    wide = (*shape[:at], times, *shape[at:])
    x = combined(draft, x, kind.value, prod([wide[axis] for axis in axes]))
    one = draft.put(graph.Reshape(x, Tensor((*shape[:at], 1, *shape[at:]), dtype_of(x))))
    draft.add(graph.Reduce(kind, tuple(sorted(axes)), spread(draft, one, wide)))


def cancelling(draft: GraphDraft, x: Value, axes: Sequence[int]) -> Value:
    """`x - x[::-1]`, whose sum is 0: what is lost on the way is not small beside it."""
    return draft.put(math.Sub(x, draft.put(backwards(x, axes))))


def some_axes(shape: Sequence[int], kind: ReduceKind, choices: Choices) -> tuple[int, ...]:
    """One or two axes, all, or every other one: those cannot be merged."""
    axes = {some_axis(shape, choices) for _ in range(choices.of((1, 1, 2)))}
    if choices.flag(3):
        axes = set(range(0, len(shape), choices.of((1, 2))))
    return tuple(sorted(axes)[:1] if kind in _PLACES else sorted(axes))


def subtract_result(
    draft: GraphDraft, x: Value, axes: Sequence[int], result: Value, choices: Choices
) -> None:
    """`x - max(x)` or `x[:n] - max(x)`: the result is broadcast along the axes that it reduces."""
    shape = list(shape_of(x))
    kept = tuple([1 if axis in axes else n for axis, n in enumerate(shape)])
    if choices.flag():
        shape[axes[0]] -= shape[axes[0]] // choices.of((2, 3))
        zeros, ones = ((number,) * len(shape) for number in (0, 1))
        x = draft.put(graph.Slice(zeros, ones, x, Tensor(tuple(shape), dtype_of(x))))
    result = draft.put(graph.Reshape(result, Tensor(kept, dtype_of(result))))
    result = draft.put(graph.Broadcast(result, Tensor(tuple(shape), dtype_of(result))))
    if dtype_of(result) is dtype_of(x):
        draft.add(math.Sub(x, result))
    else:
        draft.visible.append(result)


_TRUTH = (ReduceKind.ANY, ReduceKind.ALL)
_PLACES = (ReduceKind.ARGMAX, ReduceKind.ARGMIN)
_USUAL = (*[ReduceKind.SUM] * 3, ReduceKind.MAXIMUM, ReduceKind.MINIMUM, *_PLACES)
_OF_NUMBERS = (*[kind for kind in ReduceKind if kind not in _TRUTH], *_USUAL)
_OF_NOTHING = (ReduceKind.SUM, ReduceKind.PROD, *_TRUTH)


def some_row(draft: GraphDraft, dtypes: Collection[DType], choices: Choices) -> Value:
    """The operand of a reduction or scan: at times a new one, with rows too long for a tile, or
    one whose elements are elsewhere."""
    style = choices.below(10)
    if style < 8:
        x = draft.some_shaped(dtypes, choices)
        return displaced(draft, x, choices) if style > 5 else x
    size = choices.of(LONG)
    shape = choices.of([(size,), (2, size), (size, 2), (12, 40, 8), (size,)])
    usable = [d for d in (*draft.dtypes, *HALVES) if d in dtypes and d in draft.all_dtypes]
    return draft.leaf(Tensor(shape, choices.of(usable or [i32])))


def some_axis(shape: Sequence[int], choices: Choices) -> int:
    """Any axis, or the longest."""
    return choices.below(len(shape)) if choices.flag() else shape.index(max(shape))


def combined(draft: GraphDraft, x: Value, kind: str, count: int) -> Value:
    """The operand of a reduction or scan of so many elements."""
    if kind == "prod":
        return factors(draft, x, count)
    if kind == "sum":
        return addends(draft, x, count)
    return summable(draft, x, kind, max(count, 1))


def factors(draft: GraphDraft, x: Value, count: int) -> Value:
    """The operand of a product: mostly without a factor that makes it 0 whatever the others are,
    or, of integers, even factors, of which some dozens do."""
    x = draft.exact(x, 1, 1) if count > MANY else summable(draft, x, "prod", max(count, 1))
    type_ = element_type(x.type)
    if draft.choices.flag(4):
        return x
    if type_.element.is_integer:
        return draft.put(math.Or(x, draft.constant(1, type_)))
    is_zero = draft.put(math.Compare(Predicate.EQ, x, draft.constant(0, type_)))
    return draft.put(math.Select(is_zero, draft.constant(-1, type_), x))


def addends(draft: GraphDraft, x: Value, count: int) -> Value:
    """The operand of a sum.

    A sum of 16-bit floats is computed in f32 and rounded once.  The terms are made fractions that
    f32 adds exactly in any order, but f16 and bf16 do not: so a sum that is carried in 16 bits
    shows.
    """
    type_ = element_type(x.type)
    if type_.element not in HALVES or draft.rounding:
        return summable(draft, x, "sum", max(count, 1))
    parts = 1 << min(10, (SUMS_AT_MOST // (SUMMED * max(count, 1))).bit_length() - 1)
    scaled = draft.put(math.Mul(x, draft.constant(float(FINER * parts), type_)))
    whole = draft.exact(scaled, SUMMED * parts, 0)
    return draft.put(math.Mul(whole, draft.constant(1 / (FINER * parts), type_)))


@make_graph(graph.Scan)
def scan(cls: type[graph.Scan], draft: GraphDraft, choices: Choices) -> None:
    """One scan, or several, each of the last one reversed, so that each is a kernel of its own."""
    x = some_row(draft, NUMBERS, choices)
    kind = choices.of(list(ScanKind))
    axis = some_axis(shape_of(x), choices)
    scanned(draft, kind, axis, x)
    for _ in range(choices.of((0, 0, 3, 0, 4, 0))):
        if 0 not in shape_of(x):
            draft.add(backwards(draft.visible[-1], [axis]))
        scanned(draft, kind, axis, draft.visible[-1])
    if choices.flag(3):
        draft.visible.append(displaced(draft, draft.visible.pop(), choices))


def scanned(draft: GraphDraft, kind: ScanKind, axis: int, x: Value) -> None:
    draft.add(graph.Scan(kind, axis, combined(draft, x, kind.value, shape_of(x)[axis])))


@make_graph(graph.Matmul)
def matmul(cls: type[graph.Matmul], draft: GraphDraft, choices: Choices) -> None:
    any_uniform, elsewhere = choices.flag(4), choices.flag(4)
    turned = choices.flag(4)  # it, and its factors
    a = draft.find(lambda t: len(t.shape) > 1 + turned and t.element is not bool_, choices)
    if a is None or choices.flag(3):
        batch = choices.of([(2, 3), (3,), (3, 2)] if turned else [(), (), draft.sizes[:1], (2, 1)])
        shape = (*batch, choices.of(draft.sizes), choices.of(draft.sizes))
        a = draft.leaf(Tensor(fitting(shape, draft.most), _number(draft, choices)))
    dtype, (*outer, rows, depth) = dtype_of(a), shape_of(a)

    def fits(type_: ElementType) -> bool:
        return (
            type_.element is dtype
            and type_.shape[:-1] == (*outer, depth)
            and prod([*outer, rows, type_.shape[-1]]) <= draft.most
        )

    b = draft.find(fits, choices, besides=a)
    if b is None:
        columns = choices.of([*draft.sizes, depth])
        if prod([*outer, max(rows, depth), columns]) > draft.most:
            columns = 1
        b = draft.leaf(Tensor((*outer, depth, columns), dtype))
    if any_uniform:
        a, b = uniform_one(draft, choices, (a, b), (-1, -2))
    elif elsewhere:
        a, b = (displaced(draft, x, choices) if choices.flag() else x for x in (a, b))
    elif turned:
        a, b = (transposed_from(draft, element_type(x.type), choices) for x in (a, b))
    product = graph.Matmul(*[draft.exact(x, SUMMED, SUMMED) for x in (a, b)])
    if turned:
        order = order_of_matrices(len(shape_of(a)), choices)
        keep(draft, graph.Transpose(order, draft.put(product)), choices)
    else:
        keep(draft, product, choices)


def keep(draft: GraphDraft, op: Op, choices: Choices) -> None:
    """An op whose result is there to be used; at times only with its elements elsewhere."""
    if choices.flag(5):
        draft.visible.append(displaced(draft, draft.put(op), choices))
    else:
        draft.add(op)


def uniform_one(
    draft: GraphDraft, choices: Choices, factors: Sequence[Value], summed: Sequence[int]
) -> list[Value]:
    """Factors of a product.  One of them, or all, repeat along an axis; or each repeats along the
    axis that is summed."""
    which = choices.below(len(factors) + 2)
    if which > len(factors):
        return [along_others(draft, v, axis) for v, axis in zip(factors, summed, strict=True)]
    return [
        draft.uniform(element_type(v.type), choices) if which in (n, len(factors)) else v
        for n, v in enumerate(factors)
    ]


def along_others(draft: GraphDraft, like: Value, axis: int) -> Value:
    """An argument that is the same along one axis."""
    one = [*shape_of(like)]
    one[axis] = 1
    x = draft.leaf(Tensor(tuple(one), dtype_of(like)))
    return spread(draft, x, shape_of(like))


def _number(draft: GraphDraft, choices: Choices) -> DType:
    numbers = [d for d in draft.dtypes if d is not bool_] or [i32]
    return choices.of([*numbers, *[d for d in numbers if d.is_float] * 2])


@make_graph(graph.Conv2d)
def conv2d(cls: type[graph.Conv2d], draft: GraphDraft, choices: Choices) -> None:
    any_uniform, elsewhere = choices.flag(4), choices.flag()
    x = draft.find(lambda t: len(t.shape) == 4 and t.element is not bool_, choices)
    if x is None or choices.flag(3):
        shape = (
            choices.of((1, 2)),
            choices.of((2, 1, 4)),
            choices.of((5, 4, 3)),
            choices.of((4, 5, 1)),
        )
        x = draft.leaf(Tensor(shape, _number(draft, choices)))
    dtype, (_, channels, _, _) = dtype_of(x), shape_of(x)
    groups = choices.of([n for n in (1, 1, 2, 3) if channels % n == 0])
    seen = channels // groups
    window = (choices.of((2, 1, 3)), choices.of((2, 1, 3)))

    def fits(type_: ElementType) -> bool:
        return (
            len(type_.shape) == 4
            and type_.element is dtype
            and type_.shape[1] == seen
            and type_.shape[0] % groups == 0
            and prod(type_.shape[1:]) <= draft.most
        )

    w = draft.find(fits, choices, besides=x)
    if w is None or choices.flag():
        w = draft.leaf(Tensor((groups * choices.of((1, 2)), seen, *window), dtype))
    if any_uniform:
        x, w = uniform_one(draft, choices, (x, w), (1, 1))
    elif elsewhere:
        if choices.flag() and 0 not in shape_of(x):
            x = framed(draft, x, choices.below(4), choices)
        else:
            x, w = (displaced(draft, v, choices) if choices.flag() else v for v in (x, w))
    strides, dilation = (tuple([choices.of((1, 1, 2)) for _ in range(2)]) for _ in range(2))
    padding = tuple([choices.of((0, 1, 0, 2)) for _ in range(4)])
    x, w = (draft.exact(v, SUMMED, SUMMED) for v in (x, w))
    op = graph.Conv2d(strides, padding, dilation, groups, x, w)
    if prod(shape_of(op.result)) <= draft.most:
        keep(draft, op, choices)
    else:
        op.erase()


# Computed places.


@make_graph(graph.Gather)
def gather(cls: type[graph.Gather], draft: GraphDraft, choices: Choices) -> None:
    x, axes = looked_up(draft, choices)
    shape = shape_of(x)
    rest = [n for axis, n in enumerate(shape) if axis not in axes]
    empty = 0 in [shape[axis] for axis in axes]

    def fits(type_: ElementType) -> bool:
        return (
            type_.element in PLACES
            and len(type_.shape) + len(rest) <= MOST_AXES
            and prod([*type_.shape, *rest]) <= draft.most
            and (0 in type_.shape or not empty)
        )

    first = draft.find(fits, choices)
    if first is None or choices.flag(4):
        to = choices.of([(3,), (), (1,)])
        first = draft.leaf(Tensor((0,) if empty else to, choices.of(PLACES)))
    places = [first, draft.like(first.type, choices, besides=first)]
    indices = [within(draft, v, shape[axis]) for v, axis in zip(places, axes, strict=False)]
    draft.add(graph.Gather(axes, x, indices))


def looked_up(draft: GraphDraft, choices: Choices) -> tuple[Value, tuple[int, ...]]:
    """Something, and one or two of its axes."""
    x = draft.some_shaped(ALL, choices)
    axes = {choices.below(len(shape_of(x))) for _ in range(choices.of((1, 2)))}
    return x, tuple(sorted(axes))


def within(draft: GraphDraft, places: Value, size: int) -> Value:
    """Any integers made into places on an axis, where there are any."""
    if not size:
        return places
    return draft.put(math.Mod(places, draft.constant(size, element_type(places.type))))


@make_graph(graph.Scatter)
def scatter(cls: type[graph.Scatter], draft: GraphDraft, choices: Choices) -> None:
    """To places of which no two are the same, or to any, at which updates are added up: there may
    be more of them than places.  Both may be uniform along axes, and then one update is added to
    one place more than once."""
    if choices.flag(6):
        scatter_onto_itself(draft, choices)
        return
    any_place, any_rank, fewer = choices.flag(), choices.flag(), choices.flag(3)
    is_uniform = choices.flag()
    like = draft.uniform if is_uniform else draft.like
    x, axes = looked_up(draft, choices)
    shape = shape_of(x)
    kind = ScatterKind.ADD if is_uniform and any_place else choices.of(list(ScatterKind))
    if dtype_of(x) is bool_ or (draft.portable and dtype_of(x).bits > 32):
        kind = ScatterKind.SET
    sizes = [shape[axis] for axis in axes]
    count = choices.below(min(sizes) + 1) if fewer else min(sizes)
    rest = [n for axis, n in enumerate(shape) if axis not in axes]
    if kind is ScatterKind.ADD and any_place and 0 not in sizes:
        more = choices.of((3, 2, 5, 17))
        count = more if more * prod(rest) <= draft.most else count
    to = (count, 1) if any_rank and len(rest) < MOST_AXES - 1 else (count,)
    type_ = Tensor(to, choices.of(PLACES))
    indices = [within(draft, like(type_, choices), size) for size in sizes]
    if kind is ScatterKind.SET or not any_place:
        indices[0] = distinct(draft, type_, sizes[0], choices)
    updates = like(Tensor((*type_.shape, *rest), dtype_of(x)), choices)
    if updates.type is x.type and choices.flag(4):
        updates = displaced(draft, x, choices)
    if kind is ScatterKind.ADD:
        most = SUMS_AT_MOST // (count + 1)
        x, updates = (draft.exact(v, SUMMED, most) for v in (x, updates))
    collects = kind is ScatterKind.ADD and dtype_of(x).bits == COLLECTED_BITS
    collected = collects and choices.flag()
    draft.add(graph.Scatter(kind, axes, x, updates, indices, collected=collected))


def scatter_onto_itself(draft: GraphDraft, choices: Choices) -> None:
    """Scatter an array into itself, as the updates or as the indices.  At times the array is too
    long for one program."""
    x = small(draft, choices)
    if choices.flag():
        x = draft.leaf(Tensor((choices.of(LONG),), choices.of(draft.dtypes)))
    size, dtype = shape_of(x)[0], dtype_of(x)
    kind = choices.of(list(ScatterKind))
    if dtype is bool_ or (draft.portable and dtype.bits > 32):
        kind = ScatterKind.SET
    own = draft.put((math.Xor if dtype is bool_ else math.Add)(x, draft.other(x, choices)))
    if kind is ScatterKind.ADD:
        own = draft.exact(own, SUMMED, SUMS_AT_MOST // (size + 1))
    places = distinct(draft, Tensor((size,), choices.of(PLACES)), size, choices)
    if choices.flag():
        places = draft.put(backwards(places, [0]))
    if choices.flag(3):
        kind, own = ScatterKind.SET, draft.put(math.Abs(places))
        places = own
    draft.add(graph.Scatter(kind, (0,), own, own, [places]))


def distinct(draft: GraphDraft, type_: Tensor, size: int, choices: Choices) -> Value:
    """Places on an axis, no two of them the same: those from some place on, round its end."""
    if prod(type_.shape) == 1:
        return within(draft, draft.like(type_, choices), size)
    places = draft.put(graph.Iota(0, type_))
    scalar = Tensor((), type_.element)
    if not size or not choices.flag():
        return places
    start = within(draft, draft.like(scalar, choices), size)
    start = draft.put(graph.Reshape(start, Tensor((1,) * len(type_.shape), type_.element)))
    start = draft.put(graph.Broadcast(start, type_))
    return within(draft, draft.put(math.Add(places, start)), size)


# Kernels.


@make_graph(graph.Kernel)
def kernel(cls: type[graph.Kernel], draft: GraphDraft, choices: Choices) -> None:
    """One kernel, or a few that need each other's results."""
    for _ in range(choices.of((1, 3, 6))):
        one_kernel(draft, choices)


def one_kernel(draft: GraphDraft, choices: Choices) -> None:
    """Some of the steps that follow, of which a few values go on."""
    number = sum(isinstance(op, graph.Kernel) for op in draft.func.body)
    making = graph.Kernel(f"part{number}", [])
    with draft.inside(making.body):
        for _ in range(1 + choices.below(6)):
            draft.step()
        made = [v for v in draft.visible if v.home is making.body]
        given = [v for v in made if not v.users][: -1 - choices.of((3, 1, 6)) : -1]
        if made and choices.flag(3):
            given.append(choices.of(made))
        outer = [v for v in draft.visible if v.home is not making.body]
        if outer and choices.flag(4):  # what it only hands on
            given.append(choices.of(outer))
        draft.builder.insert(Yield(given))
    types = [v.type for v in given]
    draft.add(graph.Kernel.create((), making.attributes, types, making.regions))


@make_graph(graph.Launch)
def launch(cls: type[graph.Launch], draft: GraphDraft, choices: Choices) -> None:
    """Up to four kernels that need nothing of each other."""
    number = sum(isinstance(op, graph.Launch) for op in draft.func.body)
    making = graph.Launch(f"launch{number}", [])
    with draft.inside(making.body):
        for _ in range(1 + choices.below(4)):
            one_kernel(draft, choices)
            draft.visible = [v for v in draft.visible if v.home is not making.body]
        results = [v for kernel in making.kernels for v in kernel.results]
        draft.builder.insert(Yield(results))
    types = [v.type for v in results]
    draft.add(graph.Launch.create((), making.attributes, types, making.regions))
