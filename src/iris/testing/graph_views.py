"""The same elements elsewhere, as users write it with several views: rolled, shifted, put in, in
blocks, in another order."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from iris.ir import graph, math
from iris.ir.core import Value
from iris.ir.math import Predicate, element_type
from iris.ir.types import DType, ElementType, Tensor, bool_, i32, i64
from iris.testing.choices import Choices
from iris.testing.draft import fitting, odd_numbers
from iris.testing.graphs import MOST_AXES, GraphDraft

Shape = tuple[int, ...]


def shape_of(value: Value) -> Shape:
    return element_type(value.type).shape


def dtype_of(value: Value) -> DType:
    return element_type(value.type).element


# One view.


def reshaped(draft: GraphDraft, x: Value, shape: Shape) -> Value:
    return draft.put(graph.Reshape(x, Tensor(shape, dtype_of(x))))


def spread(draft: GraphDraft, x: Value, shape: Shape) -> Value:
    return draft.put(graph.Broadcast(x, Tensor(shape, dtype_of(x))))


def part(draft: GraphDraft, x: Value, axis: int, start: int, size: int, step: int = 1) -> Value:
    """Some elements along one axis, and all along the others."""
    axes = range(len(shape_of(x)))
    starts = tuple([start if i == axis else 0 for i in axes])
    steps = tuple([step if i == axis else 1 for i in axes])
    shape = tuple([size if i == axis else n for i, n in enumerate(shape_of(x))])
    return draft.put(graph.Slice(starts, steps, x, Tensor(shape, dtype_of(x))))


def joined(draft: GraphDraft, axis: int, *parts: Value) -> Value:
    return draft.put(graph.Concat(axis, parts))


def backwards(x: Value, axes: Sequence[int]) -> graph.Slice:
    """`x[::-1]`, along some axes."""
    shape = shape_of(x)
    starts = tuple([n - 1 if i in axes else 0 for i, n in enumerate(shape)])
    steps = tuple([-1 if i in axes else 1 for i in range(len(shape))])
    return graph.Slice(starts, steps, x, x.type)


def factored(count: int, choices: Choices) -> Shape:
    """A shape with a given number of elements."""
    shape = [1] * (1 + choices.below(5))
    for prime in (7, 5, 3, 2):
        while count % prime == 0:
            shape[choices.below(len(shape))] *= prime
            count //= prime
    shape[-1] *= count
    return tuple(shape)


def any_order(rank: int, choices: Choices) -> Shape:
    return tuple(sorted(range(rank), key=lambda axis: choices.below(256)))


def order_of_matrices(rank: int, choices: Choices) -> Shape:
    """An order of axes in which the last two stay the last."""
    rows, columns = rank - 2, rank - 1
    last = (columns, rows) if choices.flag() else (rows, columns)
    return (*any_order(rank - 2, choices), *last)


def transposed_from(draft: GraphDraft, type_: ElementType, choices: Choices) -> Value:
    """A value of a type that is the transpose of another."""
    order = any_order(len(type_.shape), choices)
    source = [0] * len(order)
    for axis, n in zip(order, type_.shape, strict=True):
        source[axis] = n
    x = draft.leaf(Tensor(tuple(source), type_.element))
    return draft.put(graph.Transpose(order, x))


def viewed(draft: GraphDraft, type_: ElementType, style: int, choices: Choices) -> Value:
    """A value of a type that is one view of another: a reshape, transpose, pad or broadcast."""
    shape = type_.shape
    if style == 0:
        source = factored(prod(shape), choices)
        return reshaped(draft, draft.leaf(Tensor(source, type_.element)), shape)
    if style == 1:
        return transposed_from(draft, type_, choices)
    fewer = [n - choices.of((0, 1, 0, 2)) if n > 2 else n for n in shape]
    if style == 2:
        x = draft.leaf(Tensor(tuple(fewer), type_.element))
        lows = [choices.below(n - m + 1) for n, m in zip(shape, fewer, strict=True)]
        return draft.put(graph.Pad(tuple(lows), x, padding(draft, x, choices), type_))
    one = [1 if choices.flag() else n for n in shape]
    return spread(draft, draft.leaf(Tensor(tuple(one), type_.element)), shape)


def between_views(draft: GraphDraft, choices: Choices) -> Value:
    """An op between two views of one kind: the second undoes the first, does the same again, or
    does something else."""
    cube = not choices.flag(3)  # whose shape does not show in which order its axes are
    sizes = draft.sizes[: 1 if cube else 3]
    shape = fitting([choices.of(sizes) for _ in range(choices.of((3, 2, 4)))], draft.most)
    x = draft.leaf(Tensor(shape, choices.of(draft.dtypes)))
    if choices.flag(3):
        seen = reshaped(draft, x, factored(prod(shape), choices))
        after = choices.of((shape, shape[::-1], factored(prod(shape), choices)))
        return reshaped(draft, _combined(draft, seen, choices), after)
    turned = (*range(1, len(shape)), 0)  # which does not undo itself
    first = choices.of((any_order(len(shape), choices), turned))
    back = tuple(sorted(range(len(shape)), key=first.__getitem__))
    seen = draft.put(graph.Transpose(first, x))
    second = choices.of((back, first, back, first, any_order(len(shape), choices)))
    return draft.put(graph.Transpose(second, _combined(draft, seen, choices)))


def _combined(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """Something and another one of its type."""
    ops = _LOGICAL if dtype_of(x) is bool_ else _PAIRS
    pair = x, draft.like(x.type, choices, besides=x)
    return draft.put(choices.of(ops)(*pair[:: choices.of((1, -1))]))


# Of the type that there was.


def displaced(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """A value of the same type that has most elements of another in other places."""
    shape = shape_of(x)
    if not shape or 0 in shape:
        return x
    axis = choices.below(len(shape))
    return choices.of(_DISPLACED)(draft, x, axis, choices)


def _turned(draft: GraphDraft, x: Value, axis: int, choices: Choices) -> Value:
    """`x[::-1]`."""
    axes = [axis] if choices.flag() else [*range(len(shape_of(x)))]
    return draft.put(backwards(x, axes))


def _rolled(draft: GraphDraft, x: Value, axis: int, choices: Choices) -> Value:
    """`concatenate([x[n:], x[:n]])`."""
    size = shape_of(x)[axis]
    first = min(choices.of((1, 2, 0, 5)), size)
    parts = part(draft, x, axis, first, size - first), part(draft, x, axis, 0, first)
    return joined(draft, axis, *parts)


def _sorted_by_parity(draft: GraphDraft, x: Value, axis: int, choices: Choices) -> Value:
    """`concatenate([x[::2], x[1::2]])`."""
    size = shape_of(x)[axis]
    even, odd = (part(draft, x, axis, min(n, size - 1), (size + 1 - n) // 2, 2) for n in (0, 1))
    return joined(draft, axis, *((even, odd) if choices.flag() else (odd, even)))


def _shifted(draft: GraphDraft, x: Value, axis: int, choices: Choices) -> Value:
    """`pad(x[:-n], (n, 0))` or `pad(x[n:], (0, n))`."""
    size = shape_of(x)[axis]
    by = min(choices.of((1, 2, 4)), size)
    later = choices.flag()
    kept = part(draft, x, axis, 0 if later else by % size, size - by)
    return _padded(draft, kept, axis, by if later else 0, shape_of(x), choices)


def _padded(
    draft: GraphDraft, x: Value, axis: int, low: int, shape: Shape, choices: Choices
) -> Value:
    lows = tuple([low if i == axis else 0 for i in range(len(shape))])
    return draft.put(graph.Pad(lows, x, padding(draft, x, choices), Tensor(shape, dtype_of(x))))


def padding(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    number = 0 if choices.flag() else choices.of((1, *odd_numbers(dtype_of(x))))
    return draft.constant(number, Tensor((), dtype_of(x)))


def framed(draft: GraphDraft, x: Value, axis: int, choices: Choices) -> Value:
    """`pad(x[1:-1], 1)`, along one axis or several."""
    shape = shape_of(x)
    most = [min(n - 1, 2) if i == axis or choices.flag() else 0 for i, n in enumerate(shape)]
    lows = tuple([choices.below(n + 1) for n in most])
    highs = [choices.below(n - low + 1) for n, low in zip(most, lows, strict=True)]
    kept = tuple([n - low - high for n, low, high in zip(shape, lows, highs, strict=True)])
    inner = draft.put(graph.Slice(lows, (1,) * len(shape), x, Tensor(kept, dtype_of(x))))
    return draft.put(graph.Pad(lows, inner, padding(draft, x, choices), x.type))


def _cut_off(draft: GraphDraft, x: Value, axis: int, choices: Choices) -> Value:
    """`where(arange(len(x)) < n, x, 0)`, or the same as a pad."""
    shape = shape_of(x)
    kept = choices.below(min(shape[axis], 255) + 1)
    if choices.flag():
        return _padded(draft, part(draft, x, axis, 0, kept), axis, 0, shape, choices)
    numbers = draft.put(graph.Iota(axis, Tensor(shape, i32)))
    limit = draft.constant(kept, Tensor(shape, i32))
    inside = draft.put(math.Compare(choices.of(_ORDERS), numbers, limit))
    other = draft.constant(choices.of((0, 1)), Tensor(shape, dtype_of(x)))
    return draft.put(math.Select(inside, x, other))


_ORDERS = (Predicate.LT, Predicate.GE, Predicate.LE)


def _overwritten(draft: GraphDraft, x: Value, axis: int, choices: Choices) -> Value:
    """`concatenate([y[:n], x[n:]])`, or a part in the middle of it: nothing moves."""
    size = shape_of(x)[axis]
    other = draft.like(x.type, choices, besides=x)
    first, last = sorted((choices.below(min(size, 255) + 1), choices.of((size, size - 1))))
    outer, inner = (other, x) if choices.flag() else (x, other)
    ranges = ((0, first, outer), (first, last, inner), (last, size, outer))
    parts = [part(draft, v, axis, min(a, size - 1), b - a) for a, b, v in ranges if b > a]
    return joined(draft, axis, *parts)


def _scrambled(draft: GraphDraft, x: Value, axis: int, choices: Choices) -> Value:
    """`x.reshape(...).transpose(...).reshape(x.shape)`."""
    split = reshaped(draft, x, factored(prod(shape_of(x)), choices))
    moved = draft.put(graph.Transpose(any_order(len(shape_of(split)), choices), split))
    return reshaped(draft, moved, shape_of(x))


def _repeated(draft: GraphDraft, x: Value, axis: int, choices: Choices) -> Value:
    """`tile(x.reshape(-1)[:n], m)`, or `repeat`, cut to size; or the same of `x.T`."""
    shape, count = shape_of(x), prod(shape_of(x))
    if choices.flag():
        x = reordered(draft, x, choices)
    size = 1 + choices.below(min(count, 12))
    times = -(-count // size)
    start = choices.below(count - size + 1) if choices.flag() else 0
    some = part(draft, reshaped(draft, x, (count,)), 0, start, size)
    if choices.flag():
        wide = spread(draft, reshaped(draft, some, (1, size)), (times, size))
    else:
        wide = spread(draft, reshaped(draft, some, (size, 1)), (size, times))
    whole = part(draft, reshaped(draft, wide, (times * size,)), 0, 0, count)
    return reshaped(draft, whole, shape)


def _transposed(draft: GraphDraft, x: Value, axis: int, choices: Choices) -> Value:
    """`x.T`, if that is of the same shape."""
    shape = shape_of(x)
    alike = [i for i, n in enumerate(shape) if n == shape[axis] and i != axis]
    if not alike:
        return _scrambled(draft, x, axis, choices)
    other, order = choices.of(alike), [*range(len(shape))]
    order[axis], order[other] = other, axis
    return draft.put(graph.Transpose(tuple(order), x))


def _looked_up(draft: GraphDraft, x: Value, axis: int, choices: Choices) -> Value:
    """`x[(arange(n) * a + b) % n]`."""
    shape = shape_of(x)
    type_ = Tensor((shape[axis],), choices.of((i32, i64)))
    places = draft.put(graph.Iota(0, type_))
    places = draft.put(math.Mul(places, draft.constant(choices.of((1, 2, -1, 3)), type_)))
    places = draft.put(math.Add(places, draft.constant(choices.of((0, 1, -1)), type_)))
    places = draft.put(math.Mod(places, draft.constant(shape[axis], type_)))
    found = draft.put(graph.Gather((axis,), x, [places]))
    order = [*range(1, len(shape))]
    order.insert(axis, 0)
    return draft.put(graph.Transpose(tuple(order), found)) if axis else found


_DISPLACED = (
    _turned,
    _rolled,
    _shifted,
    framed,
    _overwritten,
    _overwritten,
    framed,
    _cut_off,
    _scrambled,
    _repeated,
    _transposed,
    _sorted_by_parity,
    _looked_up,
)


# Of any type.


def chained(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """Views of views, which nothing else uses."""
    for _ in range(choices.of((3, 2, 4, 5))):
        if not shape_of(x):
            break
        x = choices.of(_VIEWS)(draft, x, choices)
    return x


def _factored(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    return reshaped(draft, x, factored(prod(shape_of(x)), choices))


def _flat(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    return reshaped(draft, x, (prod(shape_of(x)),))


def reordered(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """Its axes in any order."""
    return draft.put(graph.Transpose(any_order(len(shape_of(x)), choices), x))


def _less(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """Along each axis all, backwards, every other or all but a few elements."""
    parts = [_less_of(n, choices) for n in shape_of(x)]
    starts, steps, shape = (tuple(numbers) for numbers in zip(*parts, strict=True))
    return draft.put(graph.Slice(starts, steps, x, Tensor(shape, dtype_of(x))))


def _less_of(size: int, choices: Choices) -> tuple[int, int, int]:
    """The start, step and size of a slice along an axis."""
    fewer = min(choices.of((0, 1, 2, 4)), max(size - 1, 0))
    all_, odd = (0, 1, size), (1, 2, size // 2)
    backward = (max(size - 1, 0), -1, size)
    first, last = (0, 1, size - fewer), (fewer, 1, size - fewer)
    return choices.of((all_, first, backward, all_, last, odd if size > 1 else all_))


def _more(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """`tile` or `repeat`, along the first or the last axis."""
    shape = shape_of(x)
    if len(shape) == MOST_AXES or 2 * prod(shape) > draft.most:
        return _flat(draft, x, choices)
    at = choices.of((0, len(shape)))
    wide = reshaped(draft, x, (*shape[:at], 1, *shape[at:]))
    return spread(draft, wide, (*shape[:at], 2, *shape[at:]))


def _displaced(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    return displaced(draft, x, choices)


_VIEWS = (_factored, _less, reordered, _factored, _more, _flat, _less, _displaced)


# Together with others.


def parts_together(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """Parts of one thing, one after the other; at times one of them goes other ways along
    other axes."""
    shape = shape_of(x)
    axis = choices.below(len(shape))
    cuts = sorted(choices.below(min(shape[axis], 255) + 1) for _ in range(choices.of((1, 2))))
    step = choices.of((1, 1, -1))
    narrow = [max(n // 2, 1) if i != axis and choices.flag() else n for i, n in enumerate(shape)]
    parts = []
    for start, end in zip([0, *cuts], [*cuts, shape[axis]], strict=True):
        starts, steps = [0] * len(shape), [1] * len(shape)
        starts[axis], steps[axis] = start, step
        if step < 0:
            starts[axis] = shape[axis] - 1 - start
        for i, n in enumerate(shape):
            if i != axis and n > 1 and choices.flag(3):
                starts[i], steps[i] = _other_way(n, narrow[i], choices)
        to = [end - start if i == axis else n for i, n in enumerate(narrow)]
        if end > start:
            type_ = Tensor(tuple(to), dtype_of(x))
            parts.append(draft.put(graph.Slice(tuple(starts), tuple(steps), x, type_)))
    return joined(draft, axis, *parts) if parts else x


def _other_way(size: int, count: int, choices: Choices) -> tuple[int, int]:
    """The start and step of a slice that takes `count` elements of an axis."""
    if count == size:
        return size - 1, -1
    return choices.of(((0, 2), (size - count, 1), (0, 2), (count - 1, -1), (1, 1)))


def pairwise(draft: GraphDraft, choices: Choices) -> tuple[Value, Value]:
    """Something, and `x[:, None] - y[None, :]` of it."""

    def fits(type_: ElementType) -> bool:
        shape = type_.shape
        return 0 < len(shape) < MOST_AXES and prod(shape) * shape[0] <= draft.most

    x = draft.find(fits, choices)
    if x is None:
        size = fitting((choices.of(draft.sizes[:3]),), 16)
        x = draft.leaf(Tensor(size, choices.of(draft.dtypes)))
    y = x if choices.flag() else draft.like(x.type, choices, besides=x)
    first, *rest = shape_of(x)
    wide = (first, first, *rest)
    left = spread(draft, reshaped(draft, x, (first, 1, *rest)), wide)
    right = spread(draft, reshaped(draft, y, (1, first, *rest)), wide)
    ops = _LOGICAL if dtype_of(x) is bool_ else _PAIRS
    return x, draft.put(choices.of(ops)(left, right))


_LOGICAL: tuple[type[math.Binary], ...] = (math.Xor, math.And)
_PAIRS: tuple[type[math.Binary], ...] = (math.Sub, math.Mul, math.MaxNum, math.Add)
